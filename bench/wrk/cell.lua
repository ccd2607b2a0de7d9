-- The load of one cell, and its result as one line that a program can read (wrk's own text rounds what it prints).
-- usage: wrk ... -s cell.lua URL -- DEPTH UPLOAD_BYTES
-- DEPTH requests are written at once when above 1; UPLOAD_BYTES of content are sent with POST when above 0.

local pipeline

function init(arguments)
  local depth, upload = tonumber(arguments[1]), tonumber(arguments[2])
  if upload > 0 then
    wrk.method = "POST"
    wrk.body = string.rep("u", upload)
    wrk.headers["Content-Type"] = "application/octet-stream"
  end
  if depth > 1 then
    pipeline = string.rep(wrk.format(), depth)
    -- Defined only here: with a global `request`, wrk calls Lua before every write, which a plain cell must not pay for.
    request = function() return pipeline end
  end
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    "RESULT requests=%d bytes=%d microseconds=%d p50=%d p99=%d connect=%d read=%d write=%d status=%d timeout=%d\n",
    summary.requests, summary.bytes, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
