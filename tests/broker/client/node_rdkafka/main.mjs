// A consumer of node-rdkafka; ../member.py says what it is given and what it writes.
import kafka from 'node-rdkafka'

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
}
const given = Object.entries(settings).filter(([, value]) => value !== null)
const consumer = new kafka.KafkaConsumer(
  { ...Object.fromEntries(given), rebalance_cb: true },
  { 'auto.offset.reset': 'earliest' },
)
const write = () => {
  const now = consumer.assignments().map(({ topic, partition }) => [topic, partition])
  console.log(JSON.stringify({ assignment: now }))
}
consumer.on('rebalance', () => setTimeout(write, 50))
consumer.on('ready', () => {
  consumer.subscribe(member.topics)
  consumer.consume()
})
consumer.connect()
process.stdin.resume()
process.stdin.on('end', () => consumer.disconnect(() => process.exit(0)))
