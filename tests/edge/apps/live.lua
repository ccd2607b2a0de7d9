-- A room: each text of a client reaches all who are in it, and a POST to /say does so too.
local oribi = require "oribi"

local function handler(request)
    if request.path == "/say" then
        oribi.publish("room", request:read("a"))
        return 204
    end
    if request.path == "/tell" then
        -- Tells one client something, and all of them much, as soon as a file is there.
        local file, id = request:read("a"):match "(%S+) (%S+)"
        io.open(file .. ".begun", "w"):close()
        while not io.open(file) do
            local pause = io.popen "sleep 0.02"
            pause:close()
        end
        oribi.connection(id):send("told")
        oribi.publish("room", ("large"):rep(40000))
        return 204
    end
    if request.path == "/sleep" then
        local socket = io.popen "sleep 0.3"
        socket:close()
        return 200, {}, "slept\n"
    end
    if request.path == "/parts" then
        local stay = oribi.websocket.offered() and oribi.websocket.accept or oribi.event_stream.hold
        return stay(request, { handler = "parts" })
    end
    if oribi.event_stream.offered() then return oribi.event_stream.hold(request) end
    if oribi.websocket.offered() then return oribi.websocket.accept(request, { data = "0" }) end
    return 426, { Upgrade = "websocket" }, ""
end

-- Answers in two parts, the second one when the first has been sent.
local parts = {}

function parts.open(connection) connection:send("welcome") end

function parts.message(connection)
    connection.data = "waits"
    connection:send("first")
end

function parts.drained(connection)
    if connection.data ~= "waits" then return end
    connection.data = ""
    connection:send("second")
end

function parts.shutdown(connection) connection:send("bye") end

return oribi.live(handler, {
    parts = parts,
    open = function(connection) connection:subscribe("room") end,
    message = function(connection, text)
        connection.data = tostring(connection.data + 1)
        if text == "slow" then
            local socket = io.popen "sleep 1"
            socket:close()
        end
        if text:sub(1, 4) == "all " then
            connection:publish("room", text)
        else
            connection:send(connection.data .. " " .. connection.id .. " " .. text)
        end
    end,
})
