#!/usr/bin/env node
// Out-of-process plugin of nodeagent: pods run only images from the registries in its settings.
import { renameSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

import { admit, readSettings } from "./policy.js";

const NAME = "image_registries";
const definition = protoLoader.loadSync(fileURLToPath(new URL("plugin.proto", import.meta.url)), {
  keepCase: true,
  enums: String,
  defaults: true,
});
const { Plugin, Admission, NodeReport } = grpc.loadPackageDefinition(definition).nodeagent.plugin.v1;

let registries = [];

/** Return a handler for grpc-js whose exceptions become gRPC statuses. */
function handler(code, respond) {
  return ({ request }, callback) => {
    try {
      callback(null, respond(request));
    } catch (error) {
      callback({ code, details: error.message });
    }
  };
}

export function newServer() {
  const server = new grpc.Server();
  server.addService(Plugin.service, {
    GetPluginInfo: handler(grpc.status.INTERNAL, () => ({
      name: NAME,
      version: "1.0.0",
      supported_versions: ["v1"],
      capabilities: ["ADMISSION", "NODE_REPORT"],
    })),
    Register: handler(grpc.status.INVALID_ARGUMENT, (request) => {
      registries = readSettings(JSON.parse(request.settings));
      console.log(`allowing ${registries.join(", ")}`);
      return {};
    }),
  });
  server.addService(Admission.service, {
    AdmitPod: handler(grpc.status.INTERNAL, (request) => admit(JSON.parse(request.pod), registries)),
  });
  server.addService(NodeReport.service, {
    ReportNode: handler(grpc.status.INTERNAL, () => ({ labels: { "example.com/registries": `${registries.length}` } })),
  });
  return server;
}

/** Serve on a socket; it exists only when it accepts connections. */
export function serve(socket, ready = () => {}) {
  const server = newServer();
  rmSync(`${socket}.new`, { force: true });
  server.bindAsync(`unix:${socket}.new`, grpc.ServerCredentials.createInsecure(), (error) => {
    if (error) throw error;
    renameSync(`${socket}.new`, socket);
    ready();
  });
  return server;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = serve(process.env.NODEAGENT_PLUGIN_SOCKET);
  process.on("SIGTERM", () => server.tryShutdown(() => process.exit(0)));
}
