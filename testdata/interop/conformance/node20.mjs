// The suite's program imports fs.globSync for commands that are not used here. Node 20 does not have it yet: there it gets one that finds nothing.
import * as fs from 'node:fs'
import { register } from 'node:module'

if (!fs.globSync) {
  const source = (text) => 'data:text/javascript,' + encodeURIComponent(text)
  const withGlob = source('export * from "node:fs"; export { default } from "node:fs"; export const globSync = () => []')
  register(source(`export const resolve = (name, context, next) => name === 'fs' && context.parentURL.includes('/conformance/dist/') ? { url: ${JSON.stringify(withGlob)}, shortCircuit: true } : next(name, context)`))
}
