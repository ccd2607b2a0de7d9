-- As stream.lua, for nginx's Lua module, which runs the whole file for each request.
local pieces = package.loaded.pieces
if not pieces then
    pieces = {}
    for letter in ("abcdefghijklmnop"):gmatch(".") do pieces[#pieces + 1] = letter:rep(1024) end
    package.loaded.pieces = pieces
end
ngx.header["Content-Type"] = "text/plain"
for _, piece in ipairs(pieces) do
    ngx.print(piece)
    ngx.flush(true)
end
