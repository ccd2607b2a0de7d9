-- As upload.lua, for nginx's Lua module.
local socket = ngx.req.socket()
local total = 0
while true do
    local part, _, rest = socket:receive(65536)
    total = total + #(part or rest or "")
    if not part then break end
end
local answer = tostring(total)
ngx.header["Content-Type"] = "text/plain"
ngx.header["Content-Length"] = #answer
ngx.print(answer)
