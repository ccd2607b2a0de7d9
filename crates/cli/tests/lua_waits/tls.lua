-- A client of HTTPS, whose requests say what it asks for.
local oribi = require "oribi"

local pages = {}

local function connected(query)
    local socket = oribi.tcp()
    socket:settimeout(tonumber(query.timeout) or 30)
    local options = { pool = query.pool }
    if query.said then options.ssl_verify = query.verify ~= "false" end
    assert(socket:connect(query.host or "localhost", tonumber(query.port), options))
    local times = socket:getreusedtimes()
    local verify = query.verify ~= "false"
    local ok, why = socket:sslhandshake(nil, query.name, verify, nil, { ca_file = query.file })
    if not ok then return nil, why end
    return socket, socket:getreusedtimes(), times
end

-- Reads all that the server sends until it closes the connection.
function pages.fetch(query)
    local socket, why = connected(query)
    if not socket then return "nil " .. why end
    assert(socket:send { "GET ", query.path or "/", " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" })
    local text, failure = socket:receive("*a")
    if not text then return "nil " .. failure end
    return text:match("\r\n\r\n(.*)$")
end

-- Says how often the connection was kept before, and keeps it.
function pages.times(query)
    local socket, times = connected(query)
    assert(socket:send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
    local length
    repeat
        local line = assert(socket:receive())
        length = tonumber(line:match("^Content%-Length: (%d+)")) or length
    until line == ""
    assert(#assert(socket:receive(length)) == length)
    assert(socket:setkeepalive(60))
    return tostring(times)
end

function pages.idle(query)
    local socket = oribi.tcp()
    assert(socket:connect("127.0.0.1", tonumber(query.port)))
    assert(socket:setkeepalive(0.05))
    return "kept"
end

return function(request)
    return pages[request.path:match("^/(%a+)")](oribi.parse_form(request.query))
end
