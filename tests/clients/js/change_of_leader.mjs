// KafkaJS sends numbers, one after the other, and reads them in a group, while the test kills the partition's leader.
import { Kafka, logLevel } from 'kafkajs'

const { BOOTSTRAP, TOPIC, COUNT } = process.env
const count = Number(COUNT)
const retry = { retries: 5, initialRetryTime: 100, maxRetryTime: 1000 }
const kafka = new Kafka({ clientId: 'test', brokers: BOOTSTRAP.split(','), logLevel: logLevel.NOTHING, retry })

const consumer = kafka.consumer({ groupId: TOPIC, sessionTimeout: 6000, heartbeatInterval: 500, retry })
const read = new Set()
await consumer.connect()
await consumer.subscribe({ topic: TOPIC, fromBeginning: true })
let allRead
const whole = new Promise((resolve) => { allRead = resolve })
await consumer.run({
  eachMessage: async ({ message }) => {
    read.add(Number(message.value))
    if (read.size === 100) console.log('read 100')
    if (read.size === count) allRead()
  },
})

const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, retry })
await producer.connect()
for (let number = 0; number < count; number++) {
  await producer.send({ topic: TOPIC, acks: -1, messages: [{ value: String(number), partition: 0 }] })
  await new Promise((resolve) => setTimeout(resolve, 3))
}
await whole
console.log(`sent ${count}, read ${read.size} of them`)
await producer.disconnect()
await consumer.disconnect()
process.exit(0)
