// @platformatic/kafka: streams, which keep where they fetch next.
import { randomUUID } from 'node:crypto'
import { Consumer, stringDeserializers } from '@platformatic/kafka'
import { eventually, serve, tell } from './lines.mjs'

const made = (groupId) => new Consumer({
  clientId: 'positions', groupId, bootstrapBrokers: [process.argv[2]], deserializers: stringDeserializers,
  sessionTimeout: 10_000, heartbeatInterval: 1_000, maxWaitTime: 500,
})

const endsBy = async (consumer, topic) => {
  const at = async (timestamp) => Number((await consumer.listOffsets({ topics: [topic], timestamp })).get(topic)[0])
  return { begin: await at(-2n), end: await at(-1n) }
}

const ends = async (topic) => {
  const consumer = made(randomUUID())
  try {
    return await endsBy(consumer, topic)
  } finally {
    await consumer.close(true)
  }
}

// Reads until `most` records came or it stands at `to`, which is told by the last record, as a stream tells nothing else.
const consume = async (consumer, topic, { from, most, to, then, ...more }) => {
  let position = from
  let count = 0
  let fault = null
  let last = null
  const stream = await consumer.consume({ topics: [topic], autocommit: false, maxWaitTime: 500, minBytes: 1, ...more })
  stream.on('error', (error) => { fault = error })
  stream.on('data', (message) => {
    if (count === most) return
    last = message
    count += 1
    position = Number(message.offset) + 1
    tell(message.offset, message.value)
  })
  await eventually(() => fault || position >= to || count === most, () => `${count} records, then at ${position} on the way to ${to}`)
  if (fault) throw fault
  await then(last)
  if (fault) throw fault
  return position
}

const read = async (topic, from, to, then) => {
  const consumer = made(randomUUID())
  try {
    const offsets = [{ topic, partition: 0, offset: BigInt(from) }]
    return await consume(consumer, topic, { from, most: Infinity, to, then, mode: 'manual', offsets })
  } finally {
    await consumer.close(true)
  }
}

const group = async (topic, groupId, most, to) => {
  const consumer = made(groupId)
  try {
    const committedIn = async () => Number((await consumer.listCommittedOffsets({ topics: [{ topic, partitions: [0] }] })).get(topic)[0])
    await consumer.topics.trackAll(topic)
    await consumer.joinGroup({})
    const from = await committedIn()
    if (from < to) {
      const then = (last) => last.commit()
      await consume(consumer, topic, { from: Math.max(0, from), most, to, then, mode: 'committed', fallbackMode: 'earliest' })
    }
    const committed = await committedIn()
    return { committed, lag: (await endsBy(consumer, topic)).end - committed }
  } finally {
    await consumer.close(true)
  }
}

await serve({ ends, read, group })
