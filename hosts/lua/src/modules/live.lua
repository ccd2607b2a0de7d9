-- Connections that stay open while no worker has anything to do with them. `core` has the host's functions.
local module, core = ...

-- Those of `oribi.live`.
local handlers

local Connection = {}
Connection.__index = Connection

-- The name of a connection for the edge; nil for that of the request or event that is handled now.
local function name_of(connection)
    if connection.exchange == core.exchange() then return nil end
    if connection.id then return connection.id end
    error("a connection that is kept from `open` is reached only in its own events", 3)
end

local function check_own(connection)
    if connection.exchange ~= core.exchange() then error("this can be done only in an event of the connection itself", 3) end
end

local function send(connection, kind, payload)
    local sent = core.send(name_of(connection), kind, payload)
    if sent and connection.unsent then connection.unsent = connection.unsent + 1 end
    return sent
end

function Connection:send(text) return send(self, "text", text) end

function Connection:send_binary(bytes) return send(self, "binary", bytes) end

function Connection:send_event(lines) return send(self, "event", lines) end

-- The messages before the next event `drained`.
function Connection:pending() return self.unsent or 0 end

function Connection:close(code, reason) core.close(name_of(self), code or 1000, reason or "") end

function Connection:subscribe(channel)
    check_own(self)
    core.subscribe(channel)
end

function Connection:unsubscribe(channel)
    check_own(self)
    core.unsubscribe(channel)
end

function Connection:publish(channel, text, kind) return core.publish(channel, text, kind) end

-- The handler of an event, from those that the connection was opened with.
local function handler_of(group, event)
    local events = handlers
    if group ~= "" then events = handlers[group] end
    if type(events) ~= "table" then error(("oribi.live has no handlers `%s`"):format(group), 0) end
    return events[event]
end

-- The edge keeps the name of the handlers in front of the data.
local function kept(group, data)
    if type(data) ~= "string" then error("the data of a connection is a string", 0) end
    return string.char(#group) .. group .. data
end

local function handle(connection, group, event, ...)
    local data, handler = connection.data, handler_of(group, event)
    if not handler then return end
    handler(connection, ...)
    if connection.data ~= data and event ~= "close" then core.data(kept(group, connection.data)) end
end

-- Calls `add` with the name and the value of each field. The forms are those of a response.
local function each_field(headers, add)
    local function add_one(name, value)
        if type(name) ~= "string" then error("the fields of the response contain a list that is not a name and a value", 0) end
        if type(value) == "number" then
            local is_whole = value % 1 == 0 and math.abs(value) < 2 ^ 53
            value = is_whole and ("%d"):format(value) or tostring(value)
        end
        if type(value) ~= "string" then
            local form = "the field %s of the response is a %s: a string, a number or a list of them is expected"
            error(form:format(name, type(value)), 0)
        end
        if name:find("%c") or value:find("%c") then error("a field has a control character: " .. name, 0) end
        add(name, value)
    end
    for name, value in pairs(headers or {}) do
        if type(value) ~= "table" then
            add_one(name, value)
        elseif type(name) == "string" then
            for _, each in ipairs(value) do add_one(name, each) end
        else
            add_one(value[1], value[2])
        end
    end
end

local function lines_of(options)
    local lines = {}
    local function add(name, value) lines[#lines + 1] = ("%s: %s\r\n"):format(name, value) end
    each_field(options.headers, add)
    if options.protocol then each_field({ ["Sec-WebSocket-Protocol"] = options.protocol }, add) end
    return table.concat(lines)
end

-- The fields of a stream of events, of which the app may choose all but the type.
local function stream_fields(headers)
    local fields, is_cached = { { "Content-Type", "text/event-stream" } }, false
    each_field(headers, function(name, value)
        is_cached = is_cached or name:lower() == "cache-control"
        if name:lower() ~= "content-type" then fields[#fields + 1] = { name, value } end
    end)
    if not is_cached then fields[#fields + 1] = { "Cache-Control", "no-cache" } end
    return fields
end

local function check_options(options, known, taker)
    for name in pairs(options) do
        if not known[name] then error(("%s has no option `%s`"):format(taker, tostring(name)), 4) end
    end
end

local function open(request, kind, options, known)
    check_options(options, known, kind == "WebSocket" and "oribi.websocket.accept" or "oribi.event_stream.hold")
    if not handlers then error("the script has no handlers of events: it must return oribi.live(handler, handlers)", 3) end
    if core.offer() ~= kind then error(("the request asks for no %s that can be kept open"):format(kind), 3) end
    local group, data = options.handler or "", options.data or ""
    handler_of(group, "open")
    local bytes = kept(group, data)
    if kind == "WebSocket" then core.accept(lines_of(options), bytes) else core.hold(bytes) end
    local drained, shutdown = handler_of(group, "drained"), handler_of(group, "shutdown")
    if drained or shutdown then core.want(drained ~= nil, shutdown ~= nil) end
    local connection = setmetatable({ data = data, exchange = core.exchange(), unsent = drained and 0 }, Connection)
    handle(connection, group, "open", request)
end

local stream_options = { data = true, headers = true, handler = true }
local websocket_options = { data = true, headers = true, handler = true, protocol = true }

module.websocket = {
    offered = function() return core.offer() == "WebSocket" end,
    accept = function(request, options)
        open(request, "WebSocket", options or {}, websocket_options)
        return 200
    end,
}

module.event_stream = {
    offered = function() return core.offer() == "event stream" end,
    hold = function(request, options)
        options = options or {}
        local fields = stream_fields(options.headers)
        open(request, "event stream", options, stream_options)
        return 200, fields, ""
    end,
}

function module.publish(channel, text, kind) return core.publish(channel, text, kind) end

-- A connection by its id, for messages to it in other events and requests.
function module.connection(id) return setmetatable({ id = id, data = "" }, Connection) end

local events_of_connections = { open = true, message = true, close = true, drained = true, shutdown = true }

local function check_events(events, group)
    for name, value in pairs(events) do
        local is_event = events_of_connections[name]
        if is_event and type(value) ~= "function" then
            error(("the handler `%s` is a %s, not a function"):format(name, type(value)), 0)
        elseif not is_event and not group and type(value) == "table" then
            check_events(value, name)
        elseif not is_event then
            local all = "`open`, `message`, `close`, `drained` and `shutdown`"
            error(("there is no event `%s`: events are %s"):format(tostring(name), all), 0)
        end
    end
end

-- A handler of requests that also handles the events of connections.
function module.live(handler, events)
    if type(handler) ~= "function" or type(events) ~= "table" then
        error("oribi.live takes the handler of requests and a table of handlers of events", 2)
    end
    check_events(events)
    handlers = events
    return function(request)
        local kind, id, pending = core.event()
        if not kind then return handler(request) end
        local all, payload = core.split(request:read("a"))
        local size = all:byte(1)
        local group, data = all:sub(2, 1 + size), all:sub(2 + size)
        local connection = setmetatable({ id = id, data = data, exchange = core.exchange() }, Connection)
        if kind == "close" then
            handle(connection, group, "close", payload:byte(1) * 256 + payload:byte(2), payload:sub(3))
            return 200
        end
        connection.unsent = handler_of(group, "drained") and pending
        if kind == "drained" or kind == "shutdown" then
            handle(connection, group, kind)
        else
            handle(connection, group, "message", payload, kind == "binary")
        end
        return 200
    end
end
