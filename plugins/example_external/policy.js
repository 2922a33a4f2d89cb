// Decisions of the plugin, without I/O.

/** Return the response for a pod: REJECT if an image is from a registry that is not listed. */
export function admit(pod, registries) {
  const spec = pod.spec ?? {};
  for (const container of [...(spec.initContainers ?? []), ...(spec.containers ?? [])]) {
    if (!registries.some((registry) => container.image.startsWith(`${registry}/`))) {
      return {
        decision: "REJECT",
        reason: "RegistryNotAllowed",
        message: `the registry of ${container.image} is not allowed`,
      };
    }
  }
  return { decision: "ADMIT" };
}

/** Return the registries in the settings; throw an error that names the field. */
export function readSettings(settings) {
  const registries = settings.registries;
  if (!Array.isArray(registries) || !registries.length || registries.some((each) => typeof each !== "string")) {
    throw new Error("settings.registries: must be a list of registries");
  }
  return registries;
}
