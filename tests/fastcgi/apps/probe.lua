-- The Lua app behind the web servers.

local oribi = require "oribi"

local text = { ["Content-Type"] = "text/plain" }

local period = {}
for byte = 0, 250 do period[#period + 1] = string.char(byte) end
period = table.concat(period)

local function environment(request)
    local lines = {}
    for name, value in pairs(request.variables) do lines[#lines + 1] = name .. "=" .. value .. "\n" end
    table.sort(lines)
    return 200, text, lines
end

local answers = {
    ["/"] = function() return 200, text, "probe\n" end,
    ["/environment"] = environment,
    ["/echo"] = function(request) return 200, text, request:read("a") end,
    ["/form"] = function(request)
        return 200, text, "Hello, " .. oribi.parse_form(request:read("a")).name .. "!\n"
    end,
    -- Sends a piece, and the second one when the pipe that the query names gets a byte.
    ["/pieces"] = function(request)
        local gate = oribi.parse_form(request.query).gate
        return 200, text, coroutine.wrap(function()
            coroutine.yield("first\n")
            local pipe = assert(io.open(gate))
            local word = pipe:read("*a")
            pipe:close()
            coroutine.yield("second, " .. word)
        end)
    end,
    ["/etag"] = function(request)
        local fields = { ETag = "\"tag\"", ["Content-Type"] = "text/plain" }
        if request.headers["if-none-match"] == "\"tag\"" then return 304, { ETag = "\"tag\"" } end
        return 200, fields, "tagged\n"
    end,
    ["/failure"] = function() error("as asked") end,
    ["/redirect"] = function(request) return oribi.redirect(request.script_name .. "/environment") end,
    ["/authorizer"] = function(request)
        local status = oribi.parse_form(request.query).status
        local fields = { ["Content-Type"] = "text/plain", ["Variable-ROLE"] = request.variables.FCGI_ROLE }
        return tonumber(status or 200), fields, "never seen"
    end,
    -- The filter's data: a line, and the rest in capital letters.
    ["/filter"] = function(request)
        local data = request.data
        if not data then return 200, text, "nothing to filter\n" end
        local first = data:read("l") or "nothing"
        local size, capitals = 0, {}
        for part in function() return data:read(65536) end do
            size = size + #part
            if size <= 65536 then capitals[#capitals + 1] = part:upper() end
        end
        return 200, text, first .. "|" .. (size <= 65536 and table.concat(capitals) or size) .. "|" .. request:read("a")
    end,
    ["/cookies"] = function()
        return 200, { ["Content-Type"] = "text/plain", ["Set-Cookie"] = { "one=1", "two=2" } }, "cookies\n"
    end,
}

return function(request)
    local path = request.path_info
    local answer = answers[path]
    if answer then return answer(request) end
    local bytes = tonumber(path:match("^/download/(%d+)$"))
    if bytes then return 200, text, period:rep(math.floor(bytes / 251) + 1):sub(1, bytes) end
    if path:match("^/environment/") or path:match("^//") then return environment(request) end
    return 404, text, "no such page\n"
end
