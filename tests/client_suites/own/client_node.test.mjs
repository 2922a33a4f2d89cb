// Requests with @kubernetes/client-node: objects of bundled and custom kinds, patches, watches, informers, reviews.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as k8s from '@kubernetes/client-node';

const NAMESPACE = 'client-node';
const config = new k8s.KubeConfig();
config.loadFromFile(process.env.CLIENT_SUITES_KUBECONFIG);
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);

const configMap = (name, labels) => ({
    apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: NAMESPACE, labels }, data: { key: 'first' },
});

async function until(condition, what) {
    for (let attempt = 0; attempt < 200; attempt++) {
        const found = await condition();
        if (found) return found;
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`not in time: ${what}`);
}

before(() => core.createNamespace({ body: { metadata: { name: NAMESPACE } } }));
after(() => core.deleteNamespace({ name: NAMESPACE }));

test('objects are created, read, replaced and deleted', async () => {
    const created = await core.createNamespacedConfigMap({ namespace: NAMESPACE, body: configMap('one') });
    created.data.key = 'second';
    await core.replaceNamespacedConfigMap({ name: 'one', namespace: NAMESPACE, body: created });
    const found = await core.readNamespacedConfigMap({ name: 'one', namespace: NAMESPACE });
    assert.equal(found.data.key, 'second');
    assert.ok(found.metadata.creationTimestamp instanceof Date);
    await core.deleteNamespacedConfigMap({ name: 'one', namespace: NAMESPACE });
    await assert.rejects(core.readNamespacedConfigMap({ name: 'one', namespace: NAMESPACE }), (e) => e.code === 404);
});

test('a stale object is not replaced', async () => {
    const first = await core.createNamespacedConfigMap({ namespace: NAMESPACE, body: configMap('stale') });
    await core.replaceNamespacedConfigMap({ name: 'stale', namespace: NAMESPACE, body: { ...first, data: { a: '1' } } });
    const stale = { ...first, data: { a: '2' } };
    const request = core.replaceNamespacedConfigMap({ name: 'stale', namespace: NAMESPACE, body: stale });
    await assert.rejects(request, (e) => e.code === 409);
});

test('lists are selected and divided into pages', async () => {
    for (const name of ['page-1', 'page-2', 'page-3']) {
        await core.createNamespacedConfigMap({ namespace: NAMESPACE, body: configMap(name, { page: 'yes' }) });
    }
    const first = await core.listNamespacedConfigMap({ namespace: NAMESPACE, labelSelector: 'page=yes', limit: 2 });
    assert.equal(first.items.length, 2);
    const rest = await core.listNamespacedConfigMap({
        namespace: NAMESPACE, labelSelector: 'page=yes', limit: 2, _continue: first.metadata._continue,
    });
    assert.deepEqual(rest.items.map((item) => item.metadata.name), ['page-3']);
});

test('the generic client creates, patches, applies and deletes', async () => {
    await objects.create(configMap('generic'));
    const spec = configMap('generic');
    spec.data.key = 'patched';
    const patched = await objects.patch(spec, undefined, undefined, 'suite', undefined, k8s.PatchStrategy.MergePatch);
    assert.equal(patched.data.key, 'patched');
    spec.data.key = 'applied';
    const applied = await objects.patch(spec, undefined, undefined, 'suite', true, k8s.PatchStrategy.ServerSideApply);
    assert.equal(applied.data.key, 'applied');
    await objects.delete(spec);
});

test('a watch receives the changes after a list', async () => {
    const list = await core.listNamespacedConfigMap({ namespace: NAMESPACE });
    const seen = [];
    const watch = new k8s.Watch(config);
    const request = await watch.watch(
        `/api/v1/namespaces/${NAMESPACE}/configmaps`, { resourceVersion: list.metadata.resourceVersion },
        (type, object) => seen.push(`${type} ${object.metadata.name}`), () => {},
    );
    await core.createNamespacedConfigMap({ namespace: NAMESPACE, body: configMap('watched') });
    await core.deleteNamespacedConfigMap({ name: 'watched', namespace: NAMESPACE });
    await until(() => seen.length >= 2, 'events');
    request.abort();
    assert.deepEqual(seen.slice(0, 2), ['ADDED watched', 'DELETED watched']);
});

test('an informer keeps a cache', async () => {
    const informer = k8s.makeInformer(
        config, `/api/v1/namespaces/${NAMESPACE}/secrets`, () => core.listNamespacedSecret({ namespace: NAMESPACE }),
    );
    await informer.start();
    await core.createNamespacedSecret({ namespace: NAMESPACE, body: { metadata: { name: 'cached' } } });
    await until(() => informer.get('cached', NAMESPACE), 'secret in the cache');
    await informer.stop();
});

test('a deployment is scaled', async () => {
    const body = {
        metadata: { name: 'web' },
        spec: {
            replicas: 0, selector: { matchLabels: { app: 'web' } },
            template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image: 'busybox' }] } },
        },
    };
    await apps.createNamespacedDeployment({ namespace: NAMESPACE, body });
    const scale = await apps.readNamespacedDeploymentScale({ name: 'web', namespace: NAMESPACE });
    scale.spec.replicas = 2;
    delete scale.metadata.resourceVersion; // The controller writes the status in the meantime.
    await apps.replaceNamespacedDeploymentScale({ name: 'web', namespace: NAMESPACE, body: scale });
    const found = await apps.readNamespacedDeployment({ name: 'web', namespace: NAMESPACE });
    assert.equal(found.spec.replicas, 2);
    await apps.deleteNamespacedDeployment({ name: 'web', namespace: NAMESPACE });
});

test('custom objects are served after their definition', async () => {
    const extensions = config.makeApiClient(k8s.ApiextensionsV1Api);
    const custom = config.makeApiClient(k8s.CustomObjectsApi);
    const schema = { type: 'object', properties: { spec: { type: 'object', properties: { length: { type: 'integer' } } } } };
    await extensions.createCustomResourceDefinition({ body: {
        metadata: { name: 'pipes.node.example.com' },
        spec: {
            group: 'node.example.com', scope: 'Namespaced', names: { plural: 'pipes', kind: 'Pipe' },
            versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
        },
    } });
    const target = { group: 'node.example.com', version: 'v1', namespace: NAMESPACE, plural: 'pipes' };
    await until(() => custom.listNamespacedCustomObject(target).catch(() => null), 'custom kind');
    const body = { apiVersion: 'node.example.com/v1', kind: 'Pipe', metadata: { name: 'one' }, spec: { length: 3, other: 1 } };
    const created = await custom.createNamespacedCustomObject({ ...target, body });
    assert.deepEqual(created.spec, { length: 3 });
    await extensions.deleteCustomResourceDefinition({ name: 'pipes.node.example.com' });
});

test('invalid objects are rejected with the field', async () => {
    const body = { metadata: { name: 'Invalid_Name' } };
    await assert.rejects(core.createNamespacedConfigMap({ namespace: NAMESPACE, body }), (error) => {
        assert.equal(error.code, 422);
        assert.match(error.body, /metadata\.name/);
        return true;
    });
});

test('access is reviewed', async () => {
    const authorization = config.makeApiClient(k8s.AuthorizationV1Api);
    const resourceAttributes = { verb: 'create', resource: 'pods', namespace: NAMESPACE };
    const review = await authorization.createSelfSubjectAccessReview({ body: { spec: { resourceAttributes } } });
    assert.equal(review.status.allowed, true);
});

test('the version is that of Kubernetes', async () => {
    const version = await config.makeApiClient(k8s.VersionApi).getCode();
    assert.match(version.gitVersion, /^v/);
});
