// Clients of Node as readers of tests/clients/positions: a command a line, answered in lines.
import readline from 'node:readline'

const PATIENCE_MS = 20_000

export const say = (...words) => process.stdout.write(`${words.join(' ')}\n`)
export const tell = (offset, value) => say('record', offset, value)

// Rejects when `condition` has not held in time.
export const eventually = async (condition, where) => {
  const end = Date.now() + PATIENCE_MS
  while (!condition()) {
    if (Date.now() > end) throw new Error(where())
    await pause(5)
  }
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// `reader` has ends(topic), read(topic, from, to, whenThere) and group(topic, group, most, to).
export const serve = async (reader) => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      await carryOut(reader, line.split(' '))
      say('done')
    } catch (error) {
      say('failed', `${error.stack || error}`.replaceAll('\n', ' '))
    }
  }
  process.exit(0)
}

const carryOut = async (reader, [command, topic, ...words]) => {
  if (command === 'ends') {
    const { begin, end } = await reader.ends(topic)
    say('begin', begin)
    say('end', end)
  } else if (command === 'read') {
    const [from, to] = words.map(Number)
    say('position', await reader.read(topic, from, to, async () => {}))
  } else if (command === 'idle') {
    const [from, to, forMs] = words.map(Number)
    await reader.read(topic, from, to, async () => {
      say('idle')
      await pause(forMs)
      say('over')
    })
  } else if (command === 'group') {
    const { committed, lag } = await reader.group(topic, words[0], Number(words[1]), Number(words[2]))
    say('committed', committed)
    say('lag', lag)
  } else {
    throw new Error(`no such command: ${command}`)
  }
}
