// KafkaJS logs in over TLS ($SECURED, $CA), on a broker whose sessions last 1.5 s.
'use strict'

const assert = require('node:assert/strict')
const { readFileSync } = require('node:fs')
const { test } = require('node:test')
const { Kafka, logLevel } = require('kafkajs')

const kafka = (mechanism, password) =>
  new Kafka({
    clientId: 'test',
    brokers: [process.env.SECURED],
    logLevel: logLevel.NOTHING,
    retry: { retries: 0 },
    ssl: { ca: [readFileSync(process.env.CA)] },
    sasl: { mechanism, username: 'alice', password },
  })

for (const mechanism of ['plain', 'scram-sha-256', 'scram-sha-512']) {
  test(`a user writes and reads with ${mechanism}, and its session is renewed`, async () => {
    const one = kafka(mechanism, 'secret')
    const topic = `js-${mechanism}`
    const admin = one.admin()
    await admin.connect()
    await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] })
    await admin.disconnect()
    const producer = one.producer()
    await producer.connect()
    let count = 0
    const end = Date.now() + 3_000
    do {
      await producer.send({ topic, messages: [{ value: `value ${count++}` }] })
    } while (Date.now() < end)
    await producer.disconnect()
    const consumer = one.consumer({ groupId: topic })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    let got = 0
    const deadline = Date.now() + 30_000
    await consumer.run({ eachMessage: async () => void got++ })
    while (got < count) {
      assert.ok(Date.now() < deadline, `${got} of ${count} within 30 s`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await consumer.disconnect()
  })

  test(`a wrong password is refused with ${mechanism}`, async () => {
    const admin = kafka(mechanism, 'wrong').admin()
    await assert.rejects(admin.connect(), /authentication failed/i)
  })
}
