// What KafkaJS says of groups: `node main.mjs FOLDER [-bytes] < specs > answers`, one a line; FOLDER
// has kafkajs installed. Members encode their subscriptions by the library's assigner; the first
// one leads: its ConsumerGroup joins and syncs, with a stub in place of the brokers. With `-bytes`
// what members and the leader send is written in base64.

import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const [folder, ...options] = process.argv.slice(2)
const kafkajs = name => createRequire(import.meta.url)(`${folder}/node_modules/kafkajs/src/${name}`)
const Cluster = kafkajs('cluster')
const ConsumerGroup = kafkajs('consumer/consumerGroup')
const createAssigner = kafkajs('consumer/assigners/roundRobinAssigner')
const { MemberAssignment } = kafkajs('consumer/assignerProtocol')
const metadata = kafkajs('protocol/requests/metadata/v0/response')

const UNKNOWN_TOPIC = 3
const silent = { debug() {}, info() {}, warn() {}, error() {}, namespace: () => silent }

// As `subscribe` of a consumer keeps its topics.
const asKept = topics => {
  const kept = {}
  for (const topic of topics) kept[topic] = {}
  return Object.keys(kept)
}

const topicMetadata = (spec, topic) => {
  const known = spec.topics[topic]
  const numbers = known ? known.listed ?? [...Array(known.partitions).keys()] : []
  const partitionMetadata = numbers.map(partitionId => ({ partitionErrorCode: 0, partitionId }))
  return { topic, topicErrorCode: known ? 0 : UNKNOWN_TOPIC, partitionMetadata }
}

const clusterOf = (spec, topics, coordinator) => ({
  brokerPool: { metadata: null },
  async refreshMetadata() {
    const topicMetadatas = topics.map(topic => topicMetadata(spec, topic))
    this.brokerPool.metadata = await metadata.parse({ topicMetadata: topicMetadatas })
  },
  findTopicPartitionMetadata: Cluster.prototype.findTopicPartitionMetadata,
  findGroupCoordinator: async () => coordinator,
  committedOffsets: () => ({}),
})

const lead = async spec => {
  const sent = {}
  for (const { member_id: memberId, topics } of spec.members) {
    sent[memberId] = createAssigner({}).protocol({ topics: asKept(topics) }).metadata
  }
  const leaderId = spec.members[0].member_id
  const topics = asKept(spec.members[0].topics)
  let assignments
  const coordinator = {
    joinGroup: async ({ groupProtocols }) => {
      sent[leaderId] = groupProtocols[0].metadata
      return {
        generationId: 1,
        leaderId,
        memberId: leaderId,
        groupProtocol: groupProtocols[0].name,
        members: spec.members.map(({ member_id: memberId }) => ({
          memberId,
          memberMetadata: sent[memberId],
        })),
      }
    },
    syncGroup: async ({ groupAssignment }) => {
      assignments = groupAssignment
      return { memberAssignment: MemberAssignment.encode({ version: 0, assignment: {} }) }
    },
  }
  const cluster = clusterOf(spec, topics, coordinator)
  const group = new ConsumerGroup({
    cluster,
    topics,
    retry: { retries: 0 },
    logger: silent,
    groupId: 'g',
    topicConfigurations: {},
    instrumentationEmitter: { emit() {} },
    assigners: [createAssigner({ cluster })],
  })
  if (group.joinAndSync) {
    await group.joinAndSync()
  } else {
    await group.join()
    await group.sync()
  }
  return { sent, assignments }
}

const inBase64 = pairs =>
  Object.fromEntries(pairs.map(([id, sent]) => [id, sent.toString('base64')]))

const answer = async spec => {
  try {
    const assignment = Object.fromEntries(spec.members.map(member => [member.member_id, []]))
    const { sent, assignments } = await lead(spec)
    for (const { memberId, memberAssignment } of assignments) {
      const byTopic = MemberAssignment.decode(memberAssignment).assignment
      assignment[memberId] = Object.keys(byTopic).flatMap(topic =>
        byTopic[topic].map(partition => [topic, partition])
      )
    }
    const said = { id: spec.id, assignment }
    if (!options.includes('-bytes')) return said
    const assigned = assignments.map(each => [each.memberId, each.memberAssignment])
    return {
      ...said,
      subscriptions: inBase64(Object.entries(sent)),
      assignments: inBase64(assigned),
    }
  } catch (e) {
    return { id: spec.id, error: { type: e.name, message: e.message } }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))))
}
