-- Creates events: BODY, TOKEN and METHOD come from the environment; prints one line of JSON at the end.
wrk.method = os.getenv("METHOD") or "GET"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("TOKEN")
wrk.headers["Content-Type"] = "application/json"
wrk.body = os.getenv("BODY")

function done(summary, latency)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  io.write(string.format(
    '{"requests": %d, "seconds": %f, "failed": %d, "p50_ms": %f, "p99_ms": %f}\n',
    summary.requests, summary.duration / 1e6, failed, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
