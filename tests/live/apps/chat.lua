-- A chat, and news that the app stores in the file TEST_NEWS: a client that comes again gets those that it has missed.
local oribi = require "oribi"

local function news()
    local events = {}
    for line in io.lines(os.getenv("TEST_NEWS")) do events[#events + 1] = ("id: %d\ndata: %s"):format(#events + 1, line) end
    return events
end

local function add(text)
    local file = assert(io.open(os.getenv("TEST_NEWS"), "a"))
    file:write(text, "\n")
    file:close()
    local events = news()
    oribi.publish("news", events[#events], "event")
end

local guest = {}

function guest.open(connection)
    connection:subscribe("chat")
    connection:send("welcome " .. connection.data)
end

function guest.message(connection, message, is_binary)
    if is_binary then return connection:send_binary(message:reverse()) end
    connection:publish("chat", connection.data .. ": " .. message)
end

local reader = {}

function reader.open(connection, request)
    connection:subscribe("news")
    connection:send_event("retry: 100")
    local last, events = request.headers["Last-Event-ID"], news()
    if last then
        for number = tonumber(last) + 1, #events do connection:send_event(events[number]) end
    end
end

local function handler(request)
    if oribi.websocket.offered() then
        return oribi.websocket.accept(request, { handler = "guest", data = request.query })
    end
    if oribi.event_stream.offered() then return oribi.event_stream.hold(request, { handler = "reader" }) end
    add(request:read("a"))
    return 204
end

return oribi.live(handler, { guest = guest, reader = reader })
