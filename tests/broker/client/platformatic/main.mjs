// A consumer of @platformatic/kafka; ../member.py says what it is given and what it writes.
import { Consumer } from '@platformatic/kafka'

const member = JSON.parse(process.argv[2])
const consumer = new Consumer({
  clientId: member.client_id ?? 'kafka', // it has no default
  groupId: member.group,
  bootstrapBrokers: [member.bootstrap],
  heartbeatInterval: member.heartbeat_ms,
  metadataMaxAge: member.refresh_ms,
  ...(member.instance_id === null ? {} : { groupInstanceId: member.instance_id }),
})

const write = () => {
  const claims = consumer.assignments ?? []
  const now = claims.flatMap(({ topic, partitions }) => partitions.map(number => [topic, number]))
  console.log(JSON.stringify({ assignment: now }))
}
consumer.on('consumer:group:join', write)
consumer.on('consumer:group:rebalance', write)

const stream = await consumer.consume({ topics: member.topics, mode: 'earliest' })
stream.on('data', () => {})
process.stdin.resume()
process.stdin.on('end', async () => {
  await stream.close()
  await consumer.close(true)
  process.exit(0)
})
