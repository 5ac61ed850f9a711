// A consumer of kafka-ts; ../member.py says what it is given and what it writes.
import { createKafkaClient } from 'kafka-ts'

const member = JSON.parse(process.argv[2])
const [host, port] = member.bootstrap.split(':')
const client = createKafkaClient({
  bootstrapServers: [{ host, port: Number(port) }],
  ...(member.client_id === null ? {} : { clientId: member.client_id }),
})
const consumer = await client.startConsumer({
  groupId: member.group,
  topics: member.topics,
  ...(member.instance_id === null ? {} : { groupInstanceId: member.instance_id }),
  ...(member.strategy === 'consumer' ? { groupProtocol: 'consumer' } : {}),
  sessionTimeoutMs: Math.max(6000, 10 * member.heartbeat_ms),
  fromBeginning: true,
  onBatch: () => {},
})

let said = null
const write = () => {
  const owned = consumer.metadata.getAssignment()
  const now = Object.keys(owned)
    .sort()
    .flatMap(topic => owned[topic].map(partition => [topic, partition]))
  const text = JSON.stringify({ assignment: now })
  if (text !== said) console.log((said = text))
}
setInterval(write, 100)
process.stdin.resume()
process.stdin.on('end', async () => {
  await consumer.close()
  process.exit(0)
})
