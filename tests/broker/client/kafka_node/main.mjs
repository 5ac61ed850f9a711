// A consumer of kafka-node; ../member.py says what it is given and what it writes.
import kafka from 'kafka-node'

const member = JSON.parse(process.argv[2])
const group = new kafka.ConsumerGroup(
  {
    kafkaHost: member.bootstrap,
    ...(member.client_id === null ? {} : { id: member.client_id }),
    groupId: member.group,
    protocol: member.strategy.split(','),
    fromOffset: 'earliest',
    sessionTimeout: 6000,
    heartbeatInterval: member.heartbeat_ms,
  },
  member.topics,
)

const write = () => {
  const now = group.topicPayloads.map(({ topic, partition }) => [topic, partition])
  console.log(JSON.stringify({ assignment: now }))
}
group.on('rebalanced', write)
group.on('rebalancing', write)
group.on('message', () => {})
group.on('error', error => console.error(error))
process.stdin.resume()
process.stdin.on('end', () => group.close(false, () => process.exit(0)))
