// A consumer of KafkaJS; ../member.py says what it is given and what it writes.
import { Kafka, logLevel } from 'kafkajs'

const member = JSON.parse(process.argv[2])
const settings = { brokers: [member.bootstrap], logLevel: logLevel.NOTHING }
if (member.client_id !== null) settings.clientId = member.client_id
const consumer = new Kafka(settings).consumer({
  groupId: member.group,
  heartbeatInterval: member.heartbeat_ms,
  metadataMaxAge: member.refresh_ms,
  maxWaitTimeInMs: 200,
  ...(member.rack === null ? {} : { rackId: member.rack }),
})

const write = claims => {
  const now = Object.keys(claims)
    .sort()
    .flatMap(topic => claims[topic].map(partition => [topic, partition]))
  console.log(JSON.stringify({ assignment: now }))
}
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => write(payload.memberAssignment))
consumer.on(consumer.events.REBALANCING, () => write({}))
consumer.on(consumer.events.CRASH, ({ payload }) => {
  console.error(`${payload.error}; restarts: ${payload.restart}`)
})

await consumer.connect()
for (const name of member.topics) {
  const topic = name.startsWith('^') ? new RegExp(name) : name
  await consumer.subscribe({ topic, fromBeginning: true })
}
await consumer.run({ eachMessage: async () => {} })
process.stdin.resume()
process.stdin.on('end', async () => {
  await consumer.disconnect()
  process.exit(0)
})
