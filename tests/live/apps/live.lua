local oribi = require "oribi"

-- The number of the process, without a library.
local function process()
    local file = assert(io.open("/proc/self/stat"))
    local number = file:read("*l"):match("^%d+")
    file:close()
    return number
end

local orders = {}

function orders.echo(connection, text) connection:send(text) end

function orders.say(connection, text) connection:publish("room", text) end

function orders.leave(connection) connection:unsubscribe("room") end

function orders.bye(connection) connection:close() end

function orders.code(connection, code) connection:close(tonumber(code)) end

function orders.fail() error("the handler has failed") end

-- The data of a connection: the number of its messages, and its name.
local events = {}

function events.open(connection, request)
    connection:subscribe("room")
    if oribi.event_stream.offered() then connection:send("welcome " .. connection.data:match(" (.*)")) end
end

function events.message(connection, message, is_binary)
    local count, name = connection.data:match("^(%d+) (.*)")
    count = count + 1
    connection.data = ("%d %s"):format(count, name)
    if is_binary then return connection:send_binary(message:reverse()) end
    local order, text = message:match("^(%S+) ?(.*)")
    if order == "count" then return connection:send(("%d in %s"):format(count, process())) end
    if order == "path" then return connection:send("/ws/" .. name) end
    orders[order](connection, text)
end

function events.close(connection)
    connection:publish("room", connection.data:match(" (.*)") .. " left")
end

local plain = {}

function plain.message(connection, message) connection:send("plain " .. message) end

-- Sends parts, one after the other, and a last word before the server ends.
local sender = {}

function sender.open(connection)
    if oribi.event_stream.offered() then connection:send("welcome") end
end

function sender.drained(connection)
    local left, size = connection.data:match("^(%d+) (%d+)$")
    if not left then return end
    left = tonumber(left)
    connection:send(left == 0 and "done" or ("x"):rep(size))
    connection.data = left > 0 and ("%d %s"):format(left - 1, size) or ""
end

function sender.message(connection, order)
    connection.data = order
    sender.drained(connection)
end

function sender.shutdown(connection) connection:send("bye") end

local function handler(request)
    local path = request.path_info
    local name = path:match("^/ws/(.*)")
    if name then
        local offers = request.headers["Sec-WebSocket-Protocol"] or ""
        return oribi.websocket.accept(request, { data = "0 " .. name, protocol = offers:find("chat") and "chat" })
    end
    name = path:match("^/events/(.*)")
    if name then return oribi.event_stream.hold(request, { data = "0 " .. name }) end
    if path == "/offer" then
        return oribi.websocket.offered() and ":websocket" or oribi.event_stream.offered() and ":sse" or "nil"
    end
    if path == "/sender" then
        local stay = oribi.websocket.offered() and oribi.websocket.accept or oribi.event_stream.hold
        return stay(request, { handler = "sender" })
    end
    if path == "/plain" then return oribi.websocket.accept(request, { handler = "plain" }) end
    if path == "/fields" then
        local headers = { ["X-List"] = { "one", 2.0 }, { "X-Pair", "three" }, ["content-type"] = "a/b", ["cache-control"] = "private" }
        local stay = oribi.websocket.offered() and oribi.websocket.accept or oribi.event_stream.hold
        return stay(request, { headers = headers, handler = "plain" })
    end
    if path == "/misspelt" then return oribi.websocket.accept(request, { hander = "plain" }) end
    if path == "/unknown" then return select(2, pcall(oribi.live, handler, { plain = { mesage = print } })) end
    if path == "/missing" then return oribi.websocket.accept(request, { handler = "missing" }) end
    if path == "/after" then
        oribi.spawn(function()
            while not oribi.stopping() and not io.open(os.getenv("TEST_GO")) do oribi.sleep(0.01) end
            oribi.publish("room", "after the end")
        end)
        return 200, "late"
    end
    if path == "/refused" then return 403, "no" end
    if path == "/publish" then
        oribi.publish("room", request:read("a"))
        return 204
    end
    return 404, "none"
end

return oribi.live(handler, {
    open = events.open, message = events.message, close = events.close, plain = plain, sender = sender,
})
