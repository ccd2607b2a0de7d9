-- Sends each message of a WebSocket back.
local oribi = require "oribi"

local function handler(request)
    if oribi.websocket.offered() then return oribi.websocket.accept(request) end
    return 426, { Upgrade = "websocket" }, ""
end

return oribi.live(handler, {
    message = function(connection, message, is_binary)
        if is_binary then return connection:send_binary(message) end
        connection:send(message)
    end,
})
