-- The behaviours of app.psgi, whose head explains them. Each worker loads this by itself.
local ffi = require "ffi"
ffi.cdef [[
    int poll(void *, unsigned long, int);
    int getpid(void);
]]

local folder = os.getenv "ORIBI_TEST_FOLDER"

local function pid() return tostring(ffi.C.getpid()) end

local file = io.open(folder .. "/load")
if file then
    local word = file:read "*a"
    file:close()
    if word == "die" then error "the app is broken" end
    if word == "hang" then
        assert(io.open(folder .. "/loading", "w")):close()
        ffi.C.poll(nil, 0, 100000)
    end
    if word == "warn" then io.stderr:write(("one of many lines\n"):rep(20)) end
    if word == "doomed" then os.execute("(sleep 5; kill -9 " .. pid() .. ") >/dev/null 2>&1 &") end
end

local function answer(text) return 200, { ["Content-Type"] = "text/plain", ["X-Worker"] = pid() }, text end

local behaviours = {
    [""] = function() return answer "hello\n" end,
    fast = function(number) return answer("fast " .. number .. "\n") end,
    nap = function(number)
        assert(io.open(folder .. "/napping", "w")):close()
        ffi.C.poll(nil, 0, tonumber(number) * 1000)
        return answer("nap " .. number .. "\n")
    end,
    die = function(number) error("request " .. number .. " dies") end,
    time = function() return answer(os.time() .. "\n") end,
    orphan = function(number)
        os.execute "sleep 0.1 & exit 0"
        return answer("orphan " .. number .. "\n")
    end,
}

return function(request)
    local behaviour = behaviours[request.path:sub(2)]
    if not behaviour then return 404, {}, "" end
    return behaviour(request.query)
end
