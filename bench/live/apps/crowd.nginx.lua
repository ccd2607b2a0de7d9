-- For `content_by_lua_file` of nginx's Lua module, with one worker: clients that listen, and /say, which sends its query to all.
-- WebSockets need lua-resty-websocket in lua_package_path.
local semaphore = require "ngx.semaphore"

-- The clients, which a chunk cannot keep from request to request.
local listeners = package.loaded.crowd_listeners or {}
package.loaded.crowd_listeners = listeners

if ngx.var.uri == "/say" then
    for listener in pairs(listeners) do
        listener.texts[#listener.texts + 1] = ngx.var.args
        listener.signal:post(1)
    end
    return ngx.exit(204)
end

local websocket
if ngx.var.http_upgrade then
    websocket = assert(require("resty.websocket.server"):new { timeout = 86400000 })
else
    ngx.header["Content-Type"] = "text/event-stream"
    ngx.send_headers()
    ngx.flush(true)
end

local listener, open = { signal = semaphore.new(0), texts = {} }, true
listeners[listener] = true
while open do
    if listener.signal:wait(86400) then
        local text = table.remove(listener.texts, 1)
        if websocket then
            open = websocket:send_text(text)
        else
            open = ngx.print("data: ", text, "\n\n")
            ngx.flush(true)
        end
    end
end
listeners[listener] = nil
