-- The functions of the module `oribi` that wait. Without a coroutine of the host they block.
local oribi, core, kinds, wait, Ended, log = ...
local error, setmetatable, type, tonumber, tostring = error, setmetatable, type, tonumber, tostring
local select, next, ipairs, xpcall, getmetatable = select, next, ipairs, xpcall, getmetatable
local unpack, concat, remove, max = table.unpack or unpack, table.concat, table.remove, math.max
local traceback = core.traceback or tostring
local SLEEP, READ, WRITE, PARK, WAKE, SPAWN, SELF, FORGET, STOPPING = kinds.sleep, kinds.read, kinds.write, kinds.park,
    kinds.wake, kinds.spawn, kinds.self, kinds.forget, kinds.stopping
local now, open, resolve = core.now, core.open, core.resolve

function oribi.sleep(seconds)
    if type(seconds) ~= "number" or not (seconds >= 0) then
        error("bad argument #1 to 'sleep' (a number of seconds expected)", 2)
    end
    wait(SLEEP, seconds)
end

-- Tasks.

local Task = {}
Task.__index = Task

local function pack(...)
    return { n = select("#", ...), ... }
end

local function explain(failure)
    if getmetatable(failure) == Ended then return failure end
    log("a task has failed: " .. traceback(tostring(failure), 2))
    return failure
end

local function run(task, body, ...)
    task.results = pack(xpcall(body, explain, ...))
    for id in next, task.waiting do wait(WAKE, id) end
end

-- A task whose state the host ends cannot say so itself.
local function note_end(task)
    if not task.results and not wait(WAKE, task.id) then task.results = pack(false, "the task was ended") end
end

function oribi.spawn(body, ...)
    if type(body) ~= "function" then error("bad argument #1 to 'spawn' (a function expected)", 2) end
    local task = setmetatable({ waiting = {} }, Task)
    local ok, why = core.guard(wait, SPAWN, run, task, body, ...)
    if ok then
        task.id = why
        return task
    end
    if getmetatable(why) == Ended then error(why, 0) end
    error("tasks need --concurrency, and run only while a request is answered", 2)
end

-- Whether the worker has answered its last request: then a task should end soon.
function oribi.stopping() return wait(STOPPING) end

-- Waits until one of the tasks has ended: returns true and its results, or false and its error.
function oribi.wait(...)
    local count = select("#", ...)
    if count == 0 then error("bad argument #1 to 'wait' (a task expected)", 2) end
    local tasks, id, goes_on = { ... }, nil, false
    while true do
        for index = 1, count do
            local task = tasks[index]
            if getmetatable(task) ~= Task then error("bad argument #" .. index .. " to 'wait' (a task expected)", 2) end
            if not goes_on then note_end(task) end
            local results = task.results
            if results then
                if id then for other = 1, count do tasks[other].waiting[id] = nil end end
                return unpack(results, 1, results.n)
            end
        end
        id = id or wait(SELF)
        for index = 1, count do tasks[index].waiting[id] = true end
        goes_on = wait(PARK)
    end
end

-- Sockets.

local Socket = {}
Socket.__index = Socket
local Datagrams = {}
Datagrams.__index = Datagrams

-- Connections that `setkeepalive` has put aside: for each name a list, the one that was put aside last at its end. The host
-- closes them when their time is over.
local pools = {}
local POOL_SIZE, IDLE_TIME, TIMEOUT = 30, 60, 60

-- The number of times that a socket is read in a row before other coroutines have their turn: a peer that sends faster than the
-- script reads must not keep the worker from them.
local IN_A_ROW = 16

local function new(kind)
    return setmetatable({ connecting = TIMEOUT, sending = TIMEOUT, receiving = TIMEOUT }, kind)
end

local function time_limit(value)
    value = tonumber(value)
    return value and value >= 0 and value or nil
end

local function close(self)
    local socket = self.socket
    self.socket = nil
    if not socket then return end
    -- Another task that waits for it would wait for a descriptor that may soon be another one.
    if self.reader or self.writer then wait(FORGET, socket:descriptor()) end
    self.reader, self.writer = nil, nil
    -- A peer must not take a part for the whole.
    socket:close(self.unfinished)
end

-- Closes the connection of a call, unless another task has closed it already: then the object may have the next one.
local function give_up(self, socket)
    if self.socket == socket then close(self) end
end

-- Waits until the socket can be used, or until `left` seconds are over. Returns a message if the call cannot go on.
local function pause(self, kind, left)
    local socket = self.socket
    if not socket then return "closed" end
    local place = kind == READ and "reader" or "writer"
    if self[place] then return "socket busy" end
    self[place] = socket
    local ok, found = core.guard(wait, kind, socket:descriptor(), left)
    if self[place] == socket then self[place] = nil end
    if self.socket ~= socket then
        if not ok then error(found, 0) end
        return "closed"
    end
    if not ok then
        self.unfinished = true
        -- Nobody goes on with the handshake.
        if self.shaking then close(self) end
        error(found, 0)
    end
    if not found then return "timeout" end
end

-- Waits until the socket can be used, or until `deadline`. Returns a message if it cannot.
local function ready(self, kind, deadline)
    self.filled = 0
    local left
    if deadline then
        left = deadline - now()
        if left <= 0 then return self.socket and "timeout" or "closed" end
    end
    return pause(self, kind, left)
end

local function until_time(seconds)
    return seconds and now() + seconds
end

local function look_up(names, deadline)
    local list, why = names:addresses()
    while not list and not why do
        local left
        if deadline then
            left = deadline - now()
            if left <= 0 then return nil, "timeout" end
        end
        if not wait(READ, names:descriptor(), left) then return nil, "timeout" end
        list, why = names:addresses()
    end
    return list, why
end

local function addresses_of(host, deadline)
    local names, failure = resolve(host)
    if not names then return nil, failure end
    local ok, list, why = core.guard(look_up, names, deadline)
    names:close()
    if not ok then error(list, 0) end
    return list, why
end

local function establish(self, datagrams, host, port, deadline)
    local list, failure = { host }, nil
    if host:sub(1, 5) ~= "unix:" then
        port = tonumber(port)
        if not port or port < 1 or port > 65535 or port % 1 ~= 0 then return nil, "bad port number" end
        list, failure = addresses_of(host, deadline)
        if not list then return nil, failure end
    end
    for index = 1, #list do
        local socket, done = open(datagrams, list[index], port or 0)
        if socket then
            self.socket, failure = socket, nil
            if not done then
                failure = ready(self, WRITE, deadline)
                if not failure then failure = socket:failure() end
            end
            if not failure then return 1 end
            local own = self.socket == socket
            give_up(self, socket)
            if failure == "timeout" or not own then break end
        else
            failure = done
        end
    end
    return nil, failure
end

-- The parameters of TLS in a text: connections with others are not the same.
local function parameters(name, verify, file)
    return (verify and "verified " or "unverified ") .. name .. " " .. (file or "")
end

-- Takes a kept connection: one without TLS, unless `exact`, or with these parameters; without `tls`, any.
local function take_from_pool(self, tls, exact)
    local pool = pools[self.pool]
    for index = pool and #pool or 0, 1, -1 do
        local kept = pool[index]
        if not tls or kept.tls == tls or not (kept.tls or exact) then
            remove(pool, index)
            if kept.socket:take_back() then
                self.socket, self.times, self.tls, self.idle_time = kept.socket, kept.times, kept.tls, kept.idle_time
                return true
            end
            kept.socket:close()
        end
    end
end

local function put_into_pool(self, socket, times, idle_time, size)
    local pool = pools[self.pool] or {}
    pools[self.pool] = pool
    while #pool >= max(size or self.pool_size or POOL_SIZE, 1) do remove(pool, 1).socket:close() end
    socket:keep(idle_time ~= 0 and idle_time or nil)
    pool[#pool + 1] = { socket = socket, times = times, tls = self.tls, idle_time = idle_time }
end

-- connect("unix:/path", { pool = "name" }), connect(host, port, { pool = "name" })
function Socket:connect(host, port, options)
    if type(host) ~= "string" then error("bad argument #1 to 'connect' (a name, an address or unix:/path expected)", 2) end
    if type(port) == "table" then port, options = nil, port end
    if self.socket then close(self) end
    options = type(options) == "table" and options or {}
    local name = options.pool or host .. ":" .. tostring(port or "")
    self.pool_size, self.host, self.port, self.tls, self.used = options.pool_size, host, port, nil, false
    self.pool, self.times, self.late, self.unfinished, self.shaking = name, 0, false, false, false
    -- A driver that finds a kept connection may shake no hands, so it must get none that it would not have made itself.
    local tls = not options.pool
        and parameters(options.server_name or host, options.ssl_verify ~= false, options.ca_file)
    if take_from_pool(self, tls) then return 1 end
    return establish(self, false, host, port, until_time(self.connecting))
end

function Socket:settimeout(seconds)
    local limit = time_limit(seconds)
    self.connecting, self.sending, self.receiving = limit, limit, limit
    return 1
end

function Socket:settimeouts(connecting, sending, receiving)
    self.connecting, self.sending, self.receiving = time_limit(connecting), time_limit(sending), time_limit(receiving)
    return 1
end

function Socket:setoption()
    return 1
end

function Socket:getreusedtimes()
    if not self.socket then return nil, "closed" end
    return self.times
end

function Socket:close()
    if not self.socket then return nil, "closed" end
    close(self)
    return 1
end

-- Keeps the connection for a later `connect` of this state to the same place.
function Socket:setkeepalive(idle_time, size)
    local socket = self.socket
    if not socket then return nil, "closed" end
    if self.reader or self.writer then return nil, "socket busy" end
    self.socket = nil
    -- The answer that was too late, or for which nobody waits any more, would be taken for the next one.
    if self.late or self.unfinished or not socket:is_quiet() then
        socket:close(self.unfinished)
        return nil, "connection in dubious state"
    end
    put_into_pool(self, socket, self.times + 1, idle_time or IDLE_TIME, size)
    return 1
end

local function flat(data, parts)
    for index = 1, #data do
        local part = data[index]
        if type(part) == "table" then flat(part, parts) else parts[#parts + 1] = tostring(part) end
    end
    return parts
end

-- send(data), send(data, first, last) as in LuaSocket; `data` may be a list of strings, also a nested one.
function Socket:send(data, first, last)
    if type(data) == "table" then data = concat(flat(data, {})) else data = tostring(data) end
    if first then data = data:sub(first, last or -1) end
    local deadline, sent = until_time(self.sending), 0
    self.used = true
    -- With TLS, bytes that were taken may still have to be sent.
    local sealed = self.tls
    while sent < #data or sealed do
        local socket = self.socket
        if not socket then return nil, "closed", sent end
        local count, failure
        if sent < #data then
            count, failure = socket:send(data, sent)
        else
            count, failure = socket:flush()
        end
        if count then
            sent = sent + count
            if count == 0 then break end
        else
            failure = failure or ready(self, WRITE, deadline)
            if failure then
                if self.socket == socket then self.unfinished = true end
                if failure ~= "timeout" then give_up(self, socket) end
                return nil, failure, sent
            end
        end
    end
    if not self.socket then return nil, "closed", sent end
    return first and sent + first - 1 or sent
end

-- Reads until `take` finds something among the received bytes. At the end of the connection, `finish` decides. An end is one only
-- if the peer says so: neither if the connection breaks, nor if another task closes it, nor, with TLS, without an alert.
local function gather(self, take, argument, finish)
    local deadline = until_time(self.receiving)
    self.used = true
    self.filled = self.filled or 0
    while true do
        local socket = self.socket
        if not socket then return nil, "closed", "" end
        local found = take(socket, argument)
        if found then
            self.late = false
            return found
        end
        local count, failure = socket:fill()
        if not count then
            failure = failure or ready(self, READ, deadline)
        elseif self.filled < IN_A_ROW then
            self.filled = self.filled + 1
        elseif count > 0 then
            self.filled = 0
            failure = pause(self, READ, 0)
            if failure == "timeout" then failure = deadline and deadline <= now() and "timeout" or nil end
        end
        if count == 0 then
            local rest = socket:rest()
            give_up(self, socket)
            if finish then return rest end
            return nil, "closed", rest
        elseif failure then
            local rest = failure == "not enough memory" and "" or socket:rest()
            if self.socket == socket then self.late = true end
            if failure ~= "timeout" then give_up(self, socket) end
            return nil, failure, rest
        end
    end
end

local function never() end

local function receive(self, pattern)
    if type(pattern) == "number" or tonumber(pattern) then
        local count = tonumber(pattern)
        if count < 0 then error("bad argument #1 to 'receive' (a number of bytes expected)", 3) end
        if not self.socket then return nil, "closed", "" end
        return gather(self, self.socket.bytes, count)
    end
    pattern = pattern == nil and "l" or tostring(pattern):gsub("^%*", "")
    if pattern == "l" then return gather(self, self.socket and self.socket.line) end
    if pattern == "a" then return gather(self, never, nil, true) end
    error("bad argument #1 to 'receive' (\"*l\", \"*a\" or a number of bytes expected)", 3)
end

-- receive(pattern, prefix): the prefix is put in front of the result, as in LuaSocket.
function Socket:receive(pattern, prefix)
    local data, failure, partial = receive(self, pattern)
    if prefix and data then data = prefix .. data end
    if prefix and partial then partial = prefix .. partial end
    return data, failure, partial
end

-- At most `most` bytes, at least one.
function Socket:receiveany(most)
    return gather(self, self.socket and self.socket.some, most)
end

-- Returns a function that reads up to `pattern`, a plain text, which is left out unless `options.inclusive`. With a number it
-- returns at most so many bytes at once, and nil once after the pattern was met.
function Socket:receiveuntil(pattern, options)
    if type(pattern) ~= "string" or pattern == "" then
        error("bad argument #1 to 'receiveuntil' (a text that is not empty expected)", 2)
    end
    local inclusive = type(options) == "table" and options.inclusive or false
    local met = false
    return function(size)
        if met then
            met = false
            return nil
        end
        if not self.socket then return nil, "closed", "" end
        local take = function(socket) return socket:up_to(pattern, inclusive, size) end
        local state
        local data, failure, partial = gather(self, function(socket)
            local found, whole = take(socket)
            state = whole
            return found
        end)
        if data and size and state then met = true end
        return data, failure, partial
    end
end

-- sslhandshake(session, server_name, verify, _, { ca_file = path }) as in ngx_lua, but certificates are verified unless `verify`
-- is false, and the name is that of `connect` unless another one is given.
function Socket:sslhandshake(_, name, verify, _, options)
    if not self.socket then return nil, "closed" end
    if self.reader or self.writer then return nil, "socket busy" end
    name, verify = name or self.host, verify ~= false
    local file = type(options) == "table" and options.ca_file or nil
    if type(name) ~= "string" then error("bad argument #2 to 'sslhandshake' (the name of a server expected)", 2) end
    local tls = parameters(name, verify, file)
    if self.tls == tls then return true end
    local deadline, failure = until_time(self.connecting), nil
    if self.tls then
        if self.used or self.times == 0 then return nil, "TLS has begun with other parameters" end
        put_into_pool(self, self.socket, self.times, self.idle_time)
        self.socket, self.tls, self.times = nil, nil, 0
        if take_from_pool(self, tls, true) then return true end
        local connected, why = establish(self, false, self.host, self.port, deadline)
        if not connected then return nil, why end
    end
    self.shaking = true
    while true do
        local socket = self.socket
        if not socket then return nil, "closed" end
        local step, why = socket:shake(name, verify, file)
        if step == true then
            self.tls, self.shaking = tls, false
            return true
        end
        failure = why or ready(self, step == "read" and READ or WRITE, deadline)
        if failure then
            give_up(self, socket)
            return nil, failure
        end
    end
end

-- setpeername(host, port), setpeername("unix:/path")
function Datagrams:setpeername(host, port)
    if type(host) ~= "string" then error("bad argument #1 to 'setpeername' (an address or unix:/path expected)", 2) end
    if self.socket then close(self) end
    return establish(self, true, host, port, until_time(self.connecting))
end

function Datagrams:send(data)
    if type(data) == "table" then data = concat(flat(data, {})) else data = tostring(data) end
    local deadline = until_time(self.sending)
    while self.socket do
        local count, failure = self.socket:send(data, 0)
        if count then return 1 end
        failure = failure or ready(self, WRITE, deadline)
        if failure then return nil, failure end
    end
    return nil, "closed"
end

function Datagrams:receive(size)
    local deadline = until_time(self.receiving)
    while self.socket do
        local data, failure = self.socket:datagram(size or 65536)
        if data then return data end
        failure = failure or ready(self, READ, deadline)
        if failure then return nil, failure end
    end
    return nil, "closed"
end

Datagrams.settimeout, Datagrams.settimeouts, Datagrams.close = Socket.settimeout, Socket.settimeouts, Socket.close

function oribi.tcp() return new(Socket) end
function oribi.udp() return new(Datagrams) end

-- The calls of ngx_lua on which drivers of its users rely: times are milliseconds there.
local function in_milliseconds(kind)
    local methods = {}
    for name, method in next, kind do methods[name] = method end
    methods.__index = methods
    local seconds = function(value) return tonumber(value) and tonumber(value) / 1000 end
    function methods:settimeout(time) return kind.settimeout(self, seconds(time)) end
    function methods:settimeouts(connecting, sending, receiving)
        return kind.settimeouts(self, seconds(connecting), seconds(sending), seconds(receiving))
    end
    if kind.setkeepalive then
        function methods:setkeepalive(time, size) return kind.setkeepalive(self, seconds(time), size) end
    end
    return methods
end

local NgxSocket, NgxDatagrams = in_milliseconds(Socket), in_milliseconds(Datagrams)

return function()
    local socket = {
        tcp = function() return new(NgxSocket) end,
        udp = function() return new(NgxDatagrams) end,
    }
    socket.stream = socket.tcp
    function socket.connect(...)
        local made = socket.tcp()
        local ok, failure = made:connect(...)
        if not ok then return nil, failure end
        return made
    end
    local ngx = {
        socket = socket,
        sleep = oribi.sleep,
        thread = { spawn = oribi.spawn, wait = oribi.wait },
        null = core.null,
        now = core.time,
        get_phase = function() return "content" end,
        log = function(_, ...) log(...) end,
    }
    for level, name in ipairs { "STDERR", "EMERG", "ALERT", "CRIT", "ERR", "WARN", "NOTICE", "INFO", "DEBUG" } do
        ngx[name] = level - 1
    end
    return ngx
end
