// KafkaJS: asks APIs at versions of its own, and has its own ideas of groups and of resetting them.
'use strict'

const assert = require('node:assert/strict')
const { after, before, test } = require('node:test')
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

const kafka = new Kafka({
  clientId: 'test',
  brokers: [process.env.BOOTSTRAP],
  logLevel: logLevel.NOTHING,
  retry: { retries: 5, initialRetryTime: 100 },
})
const admin = kafka.admin()
before(() => admin.connect())
after(() => admin.disconnect())

let number = 0
const made = async (numPartitions, settings = {}) => {
  const topic = `js-${process.pid}-${number++}`
  const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
  await admin.createTopics({ topics: [{ topic, numPartitions, configEntries }] })
  return topic
}

const eventually = async (condition, what) => {
  const end = Date.now() + 30_000
  while (!condition()) {
    assert.ok(Date.now() < end, `not within 30 s: ${what()}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

const produce = async (topic, messages, more = {}) => {
  const producer = kafka.producer({ idempotent: more.idempotent })
  await producer.connect()
  const answer = await producer.send({ topic, messages, compression: more.compression })
  await producer.disconnect()
  return answer
}

// Runs consumers of a group until `done`, and returns what each was given and what they have read.
const consume = async (topic, groupId, members, done) => {
  const read = []
  const shares = []
  const consumers = []
  for (let member = 0; member < members; member++) {
    const consumer = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 200 })
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      shares[member] = (payload.memberAssignment[topic] || []).length
    })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({ eachMessage: async ({ partition, message }) => read.push({ partition, ...message }) })
    consumers.push(consumer)
  }
  await eventually(() => done(read, shares), () => `${read.length} read, shares ${shares}`)
  await Promise.all(consumers.map((consumer) => consumer.disconnect()))
  return read
}

for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
  for (const idempotent of [false, true]) {
    test(`records come back as they were: compression ${compression}, idempotent ${idempotent}`, async () => {
      const topic = await made(1)
      const sent = [
        { key: 'key', value: 'value', headers: { a: '1' } },
        { key: null, value: 'no key' },
        { key: 'no value', value: null },
        { key: '', value: '' },
        { key: 'large', value: 'x'.repeat(500_000) },
      ]
      await produce(topic, sent, { compression, idempotent })
      const read = await consume(topic, topic, 1, (records) => records.length === sent.length)
      const text = (bytes) => (bytes === null ? null : bytes.toString())
      assert.deepEqual(
        read.map(({ key, value }) => ({ key: text(key), value: text(value) })),
        sent.map(({ key, value }) => ({ key, value })),
      )
      assert.equal(read[0].headers.a.toString(), '1')
    })
  }
}

test('two members share the partitions, and every record is read', async () => {
  const topic = await made(3)
  await produce(topic, Array.from({ length: 60 }, (_, i) => ({ key: `k${i}`, value: `v${i}` })))
  const isDone = (records, shares) => new Set(records.map(({ value }) => `${value}`)).size === 60 && shares.length === 2 && shares[0] * shares[1] > 0
  await consume(topic, topic, 2, isDone)
})

test('a group is reset to the beginning and to offsets, and goes on from there', async () => {
  const topic = await made(1)
  await produce(topic, [{ value: 'one' }, { value: 'two' }])
  await consume(topic, topic, 1, (records) => records.length === 2)
  await admin.resetOffsets({ groupId: topic, topic, earliest: true })
  const [, second] = await consume(topic, topic, 1, (records) => records.length === 2)
  await admin.setOffsets({ groupId: topic, topic, partitions: [{ partition: 0, offset: second.offset }] })
  const again = await consume(topic, topic, 1, (records) => records.length === 1)
  assert.equal(`${again[0].value}`, 'two')
  assert.equal((await admin.describeGroups([topic])).groups[0].state, 'Empty')
  assert.equal((await admin.deleteGroups([topic]))[0].errorCode, 0)
})

test('a topic with append time gives the broker’s time', async () => {
  const topic = await made(1, { 'message.timestamp.type': 'LogAppendTime' })
  const begun = Date.now()
  const [told] = await produce(topic, [{ value: 'x', timestamp: '5' }])
  const [read] = await consume(topic, topic, 1, (records) => records.length === 1)
  assert.ok(begun <= Number(read.timestamp) && Number(read.timestamp) <= Date.now())
  assert.equal(told.logAppendTime, read.timestamp)
})

test('topics are administered', async () => {
  const topic = await made(1)
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '77000' }] }] })
  const { resources } = await admin.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }] })
  assert.equal(resources[0].configEntries[0].configValue, '77000')
  const [told] = await produce(topic, [{ value: 'x', partition: 0 }])
  const [end] = (await admin.fetchTopicOffsets(topic)).filter(({ partition }) => partition === 0)
  assert.equal((await admin.fetchTopicOffsetsByTimestamp(topic, 1)).find(({ partition }) => partition === 0).offset, told.baseOffset)
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '-1' }] })
  assert.equal((await admin.fetchTopicOffsets(topic)).find(({ partition }) => partition === 0).low, end.high)
  await admin.deleteTopics({ topics: [topic] })
  assert.ok(!(await admin.listTopics()).includes(topic))
})

test('transactions are refused', async () => {
  const producer = kafka.producer({ transactionalId: 'none', idempotent: true, maxInFlightRequests: 1, retry: { retries: 1 } })
  await assert.rejects(async () => {
    await producer.connect()
    await producer.transaction()
  })
  await producer.disconnect()
})
