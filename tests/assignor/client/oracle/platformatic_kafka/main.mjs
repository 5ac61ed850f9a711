// What @platformatic/kafka says of groups: `node main.mjs FOLDER [-bytes] < specs > answers`, one a
// line; FOLDER has it installed. Each member joins by a Consumer of its own, with stubs in place of
// the brokers; the first one leads. With `-bytes` what they send is written in base64.

import { createInterface } from 'node:readline'

const [folder, ...options] = process.argv.slice(2)
const dist = `${folder}/node_modules/@platformatic/kafka/dist`
const { Consumer, ProtocolError } = await import(`${dist}/index.js`)
const base = await import(`${dist}/clients/base/base.js`)
const { kGetApi, kGetConnection, kGetBootstrapConnection } = base

const COORDINATOR = 1

const metadata = (spec, names) => ({
  clusterId: 'c',
  controllerId: COORDINATOR,
  brokers: [{ nodeId: COORDINATOR, host: 'localhost', port: 9092, rack: null }],
  topics: names.map(name => ({
    name,
    topicId: name,
    isInternal: false,
    partitions: (
      spec.topics[name].listed ?? [...Array(spec.topics[name].partitions).keys()]
    ).map(partitionIndex => ({ partitionIndex, replicaNodes: [], isrNodes: [] })),
  })),
})

const read = buffer => {
  let at = 2
  const int32 = () => buffer.readInt32BE((at += 4) - 4)
  const word = () => {
    const size = buffer.readInt16BE((at += 2) - 2)
    return buffer.toString('utf8', at, (at += size))
  }
  const pairs = []
  for (let topics = int32(); topics > 0; topics--) {
    const topic = word()
    for (let numbers = int32(); numbers > 0; numbers--) pairs.push([topic, int32()])
  }
  return pairs
}

// A consumer joins, and leads the members in `joined`; null: it only says what it sends.
const join = (spec, member, joined) =>
  new Promise((resolve, reject) => {
    const consumer = new Consumer({
      clientId: 'c',
      groupId: 'g',
      bootstrapBrokers: ['localhost:9092'],
      retries: 0,
    })
    const { member_id: memberId } = member
    let sent
    let assignments
    const apis = {
      Metadata: (connection, names, create, authorized, callback) => {
        const missing = joined ? names.filter(name => !(name in spec.topics)).sort() : []
        if (missing.length) {
          const at = names.indexOf(missing[0])
          const error = new ProtocolError('UNKNOWN_TOPIC_OR_PARTITION', { path: `/topics/${at}` })
          Object.assign(error, { path: `/topics/${at}` })
          callback(error)
        } else {
          callback(null, metadata(spec, names.filter(name => name in spec.topics)))
        }
      },
      FindCoordinator: (connection, type, keys, callback) =>
        callback(null, { coordinators: [{ key: 'g', nodeId: COORDINATOR }] }),
      Heartbeat: () => {},
      JoinGroup: (connection, ...rest) => {
        sent = rest[6][0].metadata
        if (!joined) {
          resolve({ sent })
          return
        }
        const members = joined.map(([id, bytes]) => ({
          memberId: id,
          metadata: id === memberId ? sent : bytes,
        }))
        const protocolName = rest[6][0].name
        rest.at(-1)(null, { memberId, leader: memberId, generationId: 1, protocolName, members })
      },
      SyncGroup: (connection, ...rest) => {
        assignments = rest[6]
        const own = assignments.find(each => each.memberId === memberId)
        rest.at(-1)(null, { assignment: own.assignment })
      },
    }
    consumer[kGetApi] = (name, callback) => callback(null, apis[name])
    consumer[kGetConnection] = (broker, callback) => callback(null, {})
    consumer[kGetBootstrapConnection] = callback => callback(null, {})
    consumer.topics.trackAll(...member.topics)
    consumer.joinGroup({}, error => (error ? reject(error) : resolve({ sent, assignments })))
  })

const inBase64 = pairs =>
  Object.fromEntries(pairs.map(([id, sent]) => [id, sent.toString('base64')]))

const answer = async spec => {
  try {
    const subscriptions = []
    for (const member of spec.members) {
      const { sent } = await join(spec, member, null)
      subscriptions.push([member.member_id, sent])
    }
    const { assignments } = await join(spec, spec.members[0], subscriptions)
    const assignment = Object.fromEntries(spec.members.map(member => [member.member_id, []]))
    for (const each of assignments) assignment[each.memberId] = read(each.assignment)
    const said = { id: spec.id, assignment }
    if (!options.includes('-bytes')) return said
    const assigned = assignments.map(each => [each.memberId, each.assignment])
    return { ...said, subscriptions: inBase64(subscriptions), assignments: inBase64(assigned) }
  } catch (e) {
    return { id: spec.id, error: { type: e.constructor.name, message: e.message } }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))))
}
process.exit(0)
