-- A driver of Redis in the manner of those for ngx_lua, and handlers that use it.
local ngx = require "oribi.ngx"
local oribi = require "oribi"

local Redis = {}
Redis.__index = Redis

function Redis.new()
    return setmetatable({ socket = assert(ngx.socket.tcp()) }, Redis)
end

function Redis:connect(...)
    self.socket:settimeouts(5000, 5000, 5000)
    return self.socket:connect(...)
end

local function encode(...)
    local parts = { "*", select("#", ...), "\r\n" }
    for index = 1, select("#", ...) do
        local argument = tostring((select(index, ...)))
        parts[#parts + 1] = { "$", #argument, "\r\n", argument, "\r\n" }
    end
    return parts
end

function Redis:reply()
    local socket = self.socket
    local line, why = socket:receive()
    if not line then return nil, why end
    local kind, rest = line:sub(1, 1), line:sub(2)
    if kind == "+" then return rest end
    if kind == "-" then return false, rest end
    if kind == ":" then return tonumber(rest) end
    local count = tonumber(rest)
    if count < 0 then return ngx.null end
    if kind == "$" then
        local text = assert(socket:receive(count))
        assert(socket:receive(2))
        return text
    end
    local list = {}
    for index = 1, count do list[index] = assert(self:reply()) end
    return list
end

function Redis:call(...)
    local sent, why = self.socket:send(encode(...))
    if not sent then return nil, why end
    return self:reply()
end

local function connected()
    local redis = Redis.new()
    local where, secure = os.getenv("REDIS"):gsub("^tls:", "")
    local host, port = where:match("^(.-):(%d+)$")
    if secure == 1 then
        assert(redis:connect(host, tonumber(port)))
        assert(redis.socket:sslhandshake(false))
    elseif where:find("^unix:") then
        assert(redis:connect(where))
    else
        assert(redis:connect(host, tonumber(port)))
    end
    return redis
end

local pages = {}

function pages.set(request)
    local redis = connected()
    local long = ("v"):rep(300000)
    assert(redis:call("SET", "key" .. request.query, long .. request.query) == "OK")
    local value = redis:call("GET", "key" .. request.query)
    assert(value == long .. request.query)
    local times = redis.socket:getreusedtimes()
    assert(redis.socket:setkeepalive(10000, 10))
    return "reused " .. times
end

-- All wait in one list, until somebody pushes as many values.
function pages.pop()
    local redis = connected()
    redis.socket:settimeout(60000)
    local found = assert(redis:call("BLPOP", "list", 60))
    assert(redis.socket:setkeepalive())
    return found[2]
end

function pages.push(request)
    local redis = connected()
    for number = 1, tonumber(request.query) do redis.socket:send(encode("RPUSH", "list", "value " .. number)) end
    for number = 1, tonumber(request.query) do assert(redis:reply()) end
    return "pushed"
end

function pages.blocked()
    local redis = connected()
    local text = redis:call("CLIENT", "LIST")
    local count = 0
    for _ in text:gmatch("cmd=blpop") do count = count + 1 end
    redis.socket:setkeepalive()
    return tostring(count)
end

function pages.late()
    local redis = connected()
    redis.socket:settimeout(20)
    local found, why = redis:call("BLPOP", "nothing", 5)
    local kept, dubious = redis.socket:setkeepalive()
    return tostring(found) .. " " .. why .. " " .. tostring(kept) .. tostring(dubious)
end

function pages.closed()
    local redis = connected()
    assert(redis:call("QUIT") == "OK")
    local line, why, partial = redis.socket:receive()
    local _, again = redis.socket:receive()
    return tostring(line) .. " " .. why .. " [" .. partial .. "] " .. again
end

function pages.refused()
    local socket = oribi.tcp()
    local ok, why = socket:connect("127.0.0.1", 1)
    local missing, unknown = socket:connect("no-such-host.invalid", 80)
    return tostring(ok) .. " " .. why .. " " .. tostring(missing) .. " " .. unknown:match("^host not found")
end

function pages.pieces()
    local redis = connected()
    redis.socket:send("ECHO one--two--three\r\n")
    assert(redis.socket:receive())
    local up_to = redis.socket:receiveuntil("--")
    local words = { up_to(), up_to() }
    words[3] = redis.socket:receive("*l")
    local by_size = redis.socket:receiveuntil("==")
    redis.socket:send("ECHO abcd==rest\r\n")
    assert(redis.socket:receive() == "$10")
    local parts = { by_size(3), by_size(3), tostring(by_size(3)) }
    assert(redis.socket:receive() == "rest")
    redis.socket:send("ECHO 12345\r\n")
    assert(redis.socket:receive("*l", "prefix ") == "prefix $5")
    assert(redis.socket:receiveany(2):match("^12?$"))
    local rest = redis.socket:receiveuntil("\r\n", { inclusive = true })()
    assert(rest:match("345\r\n$"), rest)
    return table.concat(words, ",") .. " " .. table.concat(parts, ",")
end

function pages.all()
    local socket = oribi.tcp()
    socket:settimeout(10)
    local where = os.getenv("REDIS")
    if where:find("^unix:") then assert(socket:connect(where)) else assert(socket:connect(where:match("^(.-):(%d+)$"))) end
    socket:send("PING\r\nQUIT\r\n")
    return (socket:receive("*a"):gsub("\r\n", ";"))
end

-- At the end of the worker, a task sends what it has gathered.
function pages.gathers()
    oribi.spawn(function()
        pcall(oribi.sleep, 600)
        local redis = connected()
        print("sent: " .. redis:call("SET", "gathered", "it"))
        oribi.sleep(600)
        print("never")
    end)
    return "gathering"
end

-- A task closes the socket from which another one reads.
function pages.shared()
    local redis = connected()
    redis.socket:settimeout(60000)
    local reader = oribi.spawn(function() return redis.socket:receive() end)
    oribi.sleep(0.001)
    local line, busy = redis.socket:receive()
    redis.socket:close()
    local ok, found, why = oribi.wait(reader)
    -- The same descriptor again.
    local another = connected()
    return tostring(line) .. " " .. busy .. " " .. tostring(found) .. " " .. why .. " " .. another:call("PING")
end

return function(request)
    return pages[request.path:match("^/(%a+)")](request)
end
