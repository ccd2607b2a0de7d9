-- Clients that listen to a channel, and /say, which sends its query to all.
local oribi = require "oribi"

local listener = {}

function listener.open(connection) connection:subscribe("crowd") end

local function handler(request)
    if oribi.websocket.offered() then return oribi.websocket.accept(request, { handler = "listener" }) end
    if oribi.event_stream.offered() then return oribi.event_stream.hold(request, { handler = "listener" }) end
    oribi.publish("crowd", request.query)
    return 204
end

return oribi.live(handler, { listener = listener })
