// @platformatic/kafka 1, which many move to from KafkaJS (2 wants Node 22): asks at the newest versions that a server has, flexible ones throughout.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import zlib from 'node:zlib'
import { Admin, Consumer, Producer, ProduceAcks, stringDeserializers, stringSerializers } from '@platformatic/kafka'

const base = { clientId: 'test', bootstrapBrokers: [process.env.BOOTSTRAP], retries: 5, retryDelay: 100 }
const admin = new Admin(base)
after(() => admin.close())

let number = 0
const made = async (partitions, settings = {}) => {
  const topic = `platformatic-${process.pid}-${number++}`
  const configs = Object.entries(settings).map(([name, value]) => ({ name, value }))
  await admin.createTopics({ topics: [topic], partitions, replicas: 1, configs })
  return topic
}

const produce = async (messages, more = {}) => {
  const producer = new Producer({ ...base, serializers: stringSerializers, ...more })
  try {
    return await producer.send({ messages, acks: ProduceAcks.ALL })
  } finally {
    await producer.close()
  }
}

const opened = async (topic, groupId, more = {}) => {
  const consumer = new Consumer({ ...base, groupId, deserializers: stringDeserializers, sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTime: 200 })
  const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: true, ...more })
  return { consumer, stream }
}

const within30s = (promise, what) => {
  let timer
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`not within 30 s: ${what()}`)), 30_000) })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

// Reads until `count` messages have come, and returns them.
const consume = async (topic, groupId, count, more = {}) => {
  const { consumer, stream } = await opened(topic, groupId, more)
  const read = []
  const reading = async () => {
    for await (const message of stream) {
      read.push(message)
      if (read.length === count) break
    }
  }
  try {
    await within30s(reading(), () => `${read.length} of ${count} read`)
  } finally {
    await consumer.close(true)
  }
  return read
}

const codecs = ['none', 'gzip', 'snappy', 'lz4', ...(zlib.zstdCompressSync ? ['zstd'] : [])] // Node has zstd since 22.15
for (const compression of codecs) {
  for (const idempotent of [false, true]) {
    test(`records come back as they were: ${compression}, idempotent ${idempotent}`, async () => {
      const topic = await made(1)
      const sent = [
        { topic, key: 'key', value: 'value', headers: { a: '1' } },
        { topic, value: 'no key' },
        { topic, key: 'no value' },
        { topic, key: '', value: '' },
        { topic, key: 'large', value: 'x'.repeat(900_000) },
      ]
      await produce(sent, { compression, idempotent })
      const read = await consume(topic, topic, sent.length)
      assert.deepEqual(
        read.map(({ key, value }) => ({ key: key || '', value: value || '' })),
        sent.map(({ key, value }) => ({ key: key || '', value: value || '' })),
      )
      assert.equal(read[0].headers.get('a'), '1')
    })
  }
}

test('a reader of many batches gets each record once, and a second one goes on where it stopped', async () => {
  const topic = await made(1)
  for (let batch = 0; batch < 20; batch++) {
    await produce(Array.from({ length: 10 }, (_, i) => ({ topic, value: `${batch * 10 + i}` })))
  }
  const values = (read) => read.map(({ value }) => Number(value))
  assert.deepEqual(values(await consume(topic, topic, 200)), Array.from({ length: 200 }, (_, i) => i))
  await produce([{ topic, value: '200' }])
  assert.deepEqual(values(await consume(topic, topic, 1)), [200])
})

test('two members share the partitions, and every record is read', async () => {
  const topic = await made(3)
  const read = new Set()
  const members = [await opened(topic, topic), await opened(topic, topic)]
  const all = new Promise((resolve) => {
    for (const { stream } of members) {
      stream.on('data', ({ value }) => {
        read.add(value)
        if (read.size === 60) resolve()
      })
    }
  })
  await produce(Array.from({ length: 60 }, (_, i) => ({ topic, key: `k${i}`, value: `v${i}` })))
  await within30s(all, () => `${read.size} read`)
  const described = (await admin.describeGroups({ groups: [topic] })).get(topic)
  assert.equal(described.members.size, 2)
  await Promise.all(members.map(({ consumer }) => consumer.close(true)))
})

test('topics and groups are administered', async () => {
  const topic = await made(1, { 'retention.ms': '77000' })
  await admin.createPartitions({ topics: [{ name: topic, count: 3, assignments: null }] })
  const metadata = await admin.metadata({ topics: [topic] })
  assert.equal(metadata.topics.get(topic).partitionsCount, 3)
  assert.ok((await admin.listTopics()).includes(topic))
  await produce([{ topic, partition: 0, value: 'x' }])
  await consume(topic, topic, 1)
  assert.ok((await admin.listGroups()).has(topic))
  await admin.deleteGroups({ groups: [topic] })
  await admin.deleteTopics({ topics: [topic] })
  assert.ok(!(await admin.listTopics()).includes(topic))
})
