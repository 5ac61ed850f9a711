// A consumer of @confluentinc/kafka-javascript, by its functions that are like those of KafkaJS;
// ../member.py says what it is given and what it writes.
import confluent from '@confluentinc/kafka-javascript'

const member = JSON.parse(process.argv[2])
const settings = {
  'bootstrap.servers': member.bootstrap,
  'group.id': member.group,
  'client.id': member.client_id,
  'group.instance.id': member.instance_id,
  'client.rack': member.rack,
  'partition.assignment.strategy': member.strategy,
  'heartbeat.interval.ms': member.heartbeat_ms,
  'topic.metadata.refresh.interval.ms': member.refresh_ms,
  'auto.offset.reset': 'earliest',
  log_level: 3, // the others go to standard output
}
const given = Object.entries(settings).filter(([, value]) => value !== null)
let isLeaving = false
const write = () => {
  if (isLeaving) return
  const now = consumer.assignment().map(({ topic, partition }) => [topic, partition])
  console.log(JSON.stringify({ assignment: now }))
}
const consumer = new confluent.KafkaJS.Kafka().consumer({
  ...Object.fromEntries(given),
  rebalance_cb: async () => {
    setTimeout(write, 50)
  },
})
await consumer.connect()
const topics = member.topics.map(name => (name.startsWith('^') ? new RegExp(name) : name))
await consumer.subscribe({ topics })
await consumer.run({ eachMessage: async () => {} })
process.stdin.resume()
process.stdin.on('end', async () => {
  isLeaving = true
  await consumer.disconnect()
  process.exit(0)
})
