import assert from "node:assert/strict";
import test from "node:test";

import { admit, readSettings } from "./policy.js";

const pod = (...images) => ({ spec: { containers: images.map((image) => ({ image })) } });

test("image of another registry is rejected", () => {
  const response = admit(pod("mine.example/a:1", "other.example/b:1"), ["mine.example"]);
  assert.equal(response.decision, "REJECT");
  assert.match(response.message, /other\.example\/b:1/);
});

test("image of a listed registry is admitted", () => {
  assert.equal(admit(pod("mine.example/a:1"), ["mine.example"]).decision, "ADMIT");
});

test("settings without registries are rejected with the field", () => {
  assert.throws(() => readSettings({}), /settings\.registries: must be a list/);
});
