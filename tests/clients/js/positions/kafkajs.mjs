// KafkaJS reads in groups only: one of its own for each read.
import { randomUUID } from 'node:crypto'
import kafkajs from 'kafkajs'
import { eventually, serve, tell } from './lines.mjs'

const kafka = new kafkajs.Kafka({ clientId: 'positions', brokers: [process.argv[2]], logLevel: kafkajs.logLevel.NOTHING })
const admin = kafka.admin()
await admin.connect()

const ends = async (topic) => {
  const [{ low, high }] = await admin.fetchTopicOffsets(topic)
  return { begin: Number(low), end: Number(high) }
}

// Reads until `most` records came or it stands at `to`; from the group's offset when `from` is null.
const consume = async ({ topic, groupId, from, most, to, then }) => {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 10_000, heartbeatInterval: 1_000, maxWaitTimeInMs: 500 })
  let position = from ?? 0
  let count = 0
  let crash = null
  consumer.on(consumer.events.CRASH, ({ payload }) => { crash = payload.error })
  await consumer.connect()
  try {
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    const eachBatch = async ({ batch, isStale }) => {
      if (isStale()) return
      for (const { offset, value } of batch.messages) {
        if (count === most) return
        tell(offset, value)
        count += 1
        position = Number(offset) + 1
      }
      position = Number(batch.lastOffset()) + 1
    }
    const running = consumer.run({ autoCommit: false, eachBatch })
    if (from !== null) consumer.seek({ topic, partition: 0, offset: `${from}` })
    await running
    await eventually(() => crash || position >= to || count === most, () => `${count} records, then at ${position} on the way to ${to}`)
    if (crash) throw crash
    await then(consumer, position)
    if (crash) throw crash
    return position
  } finally {
    await consumer.disconnect()
  }
}

const read = (topic, from, to, then) => consume({ topic, groupId: randomUUID(), from, most: Infinity, to, then })

const committedIn = async (topic, groupId) => {
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] })
  return Number(partitions.find(({ partition }) => partition === 0)?.offset ?? -1)
}

const group = async (topic, groupId, most, to) => {
  if ((await committedIn(topic, groupId)) < to) {
    await consume({
      topic, groupId, from: null, most, to,
      then: (consumer, position) => consumer.commitOffsets([{ topic, partition: 0, offset: `${position}` }]),
    })
  }
  const committed = await committedIn(topic, groupId)
  return { committed, lag: (await ends(topic)).end - committed }
}

await serve({ ends, read, group })
