-- As body64k.lua, for nginx's Lua module, which runs the whole file for each request.
local loaded = package.loaded
local body = loaded.body64k or ("abcdefghijklmnopqrstuvwxyz"):rep(2521):sub(1, 65536)
loaded.body64k = body
ngx.header["Content-Type"] = "text/plain"
ngx.header["Content-Length"] = 65536
ngx.print(body)
