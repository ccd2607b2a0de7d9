-- As hello.lua, for nginx's Lua module.
ngx.header["Content-Type"] = "text/plain"
ngx.header["Content-Length"] = 11
ngx.print("Hello World")
