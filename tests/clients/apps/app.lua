-- Answers for real clients: see app.psgi. OpenSSL's library computes what Lua does not.
local ffi = require "ffi"
ffi.cdef [[
    int poll(void *, unsigned long, int);
    typedef struct { unsigned char state[256]; } sum_state;
    int SHA256_Init(sum_state *);
    int SHA256_Update(sum_state *, const void *, size_t);
    int SHA256_Final(unsigned char *, sum_state *);
]]
local crypto = ffi.load "libcrypto.so.3"

local letters = {}
for at = 1, 89 do letters[at] = string.char(33 + at % 89) end
local block = table.concat(letters):rep(12000):sub(1, 2 ^ 20 - 8)

local text = { ["Content-Type"] = "text/plain" }

local function sum_of(request)
    local state, size = ffi.new "sum_state", 0
    crypto.SHA256_Init(state)
    while true do
        local piece = request:read(2 ^ 20)
        if not piece or piece == "" then break end
        crypto.SHA256_Update(state, piece, #piece)
        size = size + #piece
    end
    local sum = ffi.new "unsigned char[32]"
    crypto.SHA256_Final(sum, state)
    return ffi.string(sum, 32):gsub(".", function(byte) return ("%02x"):format(byte:byte()) end) .. " " .. size .. "\n"
end

-- Called when nothing refers to it.
local function at_the_end(call)
    local proxy = newproxy(true)
    getmetatable(proxy).__gc = call
    return proxy
end

return function(request)
    local variables = request.variables
    local path, query = variables.PATH_INFO, variables.QUERY_STRING
    if path == "/sum" then return 200, text, sum_of(request) end
    if path == "/numbered" then
        local number = 0
        return 200, text, function()
            number = number + 1
            return number <= tonumber(query) and block .. ("%08d"):format(number) or nil
        end
    end
    if path == "/filled" then return 200, text, block:sub(1, tonumber(query)) end
    if path == "/endless" then
        local piece = block:sub(1, 65536)
        local ending = at_the_end(function()
            local out = assert(io.open(os.getenv "ORIBI_TEST_ENDED", "a"))
            out:write "ended\n"
            out:close()
        end)
        local function next_piece() return ending and piece end
        -- Compiled code would keep its references.
        require "jit".off(next_piece)
        return 200, text, next_piece
    end
    if path == "/nap" then ffi.C.poll(nil, 0, tonumber(query) * 1000) end
    if path == "/held" then
        local gate
        repeat
            ffi.C.poll(nil, 0, 10)
            gate = io.open(os.getenv "ORIBI_TEST_ENDED" .. ".go")
        until gate
        gate:close()
    end
    if path == "/collect" then
        ffi.C.poll(nil, 0, 50)
        collectgarbage()
    end
    local told = {}
    for _, name in ipairs { "REQUEST_METHOD", "PATH_INFO", "SERVER_PROTOCOL", "SSL_PROTOCOL" } do
        told[#told + 1] = name .. "=" .. (variables[name] or "") .. "\n"
    end
    return 200, text, table.concat(told)
end
