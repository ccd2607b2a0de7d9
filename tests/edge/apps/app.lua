-- The behaviours of app.psgi, whose head explains them. LuaJIT's C functions replace the functions that Lua does not have.
local ffi = require "ffi"
local oribi = require "oribi"
ffi.cdef [[
    int poll(void *, unsigned long, int);
    struct timespec { long seconds; long nanoseconds; };
    int clock_gettime(int, struct timespec *);
    int getpid(void);
    int kill(int, int);
    void _exit(int);
    void *malloc(size_t);
    char *crypt(const char *, const char *);
    void qsort(void *, size_t, size_t, int (*)(const void *, const void *));
]]
local crypt = ffi.load "libcrypt.so.1"

local inside, files = os.getenv "ORIBI_TEST_INSIDE", os.getenv "ORIBI_TEST_FILES"
local LONG = 60

local function pid() return tostring(ffi.C.getpid()) end

local function enter(number)
    local out = assert(io.open(inside .. "/." .. number, "w"))
    out:write(pid())
    out:close()
    assert(os.rename(inside .. "/." .. number, inside .. "/" .. number))
end

local function fields(more)
    local all = { ["Content-Type"] = "text/plain", ["X-Worker"] = pid() }
    for name, value in pairs(more or {}) do all[name] = value end
    return all
end

local function answer(text, more) return 200, fields(more), text end

local alphabet = "abcdefghijklmnopqrstuvwxyz"

local function letters(number, length)
    local first = tonumber(number) % 26
    local turned = alphabet:sub(first + 1) .. alphabet:sub(1, first)
    return turned:rep(math.floor(length / 26) + 1):sub(1, length)
end

local clock = ffi.new "struct timespec"

local function now()
    ffi.C.clock_gettime(1, clock)
    return tonumber(clock.seconds) + tonumber(clock.nanoseconds) / 1e9
end

-- A signal for this thread ends a poll early.
local function sleep_for(seconds)
    local last = now() + seconds
    while true do
        local left = last - now()
        if left <= 0 then return end
        ffi.C.poll(nil, 0, math.ceil(left * 1000))
    end
end

local function loop_for_ever()
    local last = now() + LONG
    while now() < last do end
end

-- Twelve stars that can be shared out in about 10^36 ways.
local function match_for_ever() return (("a"):rep(10000)):find((".-"):rep(12) .. "b") end

local function read_for_ever()
    local fifo = assert(io.open(inside .. "/.fifo", "r+"))
    fifo:read(1)
    fifo:close()
end

local function compute_for_ever() crypt.crypt("word", "$6$rounds=999999999$salt$") end

-- Lua's own recursion is an error; that of a function of C has no end but that of the stack.
local pair, compare = ffi.new "int[2]", nil
local function overflow()
    compare = compare or ffi.cast("int (*)(const void *, const void *)", function()
        overflow()
        return 0
    end)
    ffi.C.qsort(pair, 2, 4, compare)
end

-- Beside the memory of the state, which is limited: so many MiB at most.
local function devour(most)
    for _ = 1, most do ffi.fill(ffi.C.malloc(2 ^ 20), 2 ^ 20, 120) end
end

local function trailers(number, length)
    local text = letters(number, tonumber(length))
    return 200, fields(), function()
        if not text then return nil, { { "X-Number", number }, { "X-Length", length } } end
        local piece = text
        text = nil
        return piece
    end
end

-- As in app.psgi.
local function behind(request)
    local lines = {}
    for name, value in pairs(request.trailers or { none = "" }) do lines[#lines + 1] = name .. ": " .. value end
    table.sort(lines)
    lines[#lines + 1] = "head " .. (request.headers["X-Sum"] or "-")
    lines[#lines + 1] = #request:read("a") .. " bytes"
    return answer(table.concat(lines, "\n"))
end

local function stream(number, length, pieces, fails)
    local text, at = letters(number, tonumber(length)), 1
    local step = math.ceil(#text / tonumber(pieces))
    return 200, fields(), function()
        if at > #text then
            if fails then error("broken off") end
            return nil
        end
        at = at + step
        return text:sub(at - step, at - 1)
    end
end

local function entering(name, work)
    return function(_, number, ...)
        enter(number)
        work(...)
        return answer(name .. " " .. number .. "\n")
    end
end

-- The way in which the boot request is answered, if a test has set one.
local function boot()
    local word = io.open(inside .. "/boot")
    if not word then return answer("booted\n") end
    local how = word:read("*l")
    word:close()
    if how == "die" then error("no database") end
    if how == "hang" then sleep_for(LONG) end
    if how == "slow" then
        sleep_for(0.2)
        return answer("booted\n")
    end
    return tonumber(how), {}, ""
end

-- Counts an order and how long it took.
local function count(_, number)
    oribi.count("orders", 1, { kind = tonumber(number) % 2 })
    oribi.observe("payment_seconds", 0.02, { provider = "x" })
    return answer("count " .. number .. "\n")
end

-- The server's error for an impossible figure.
local function misuse(_, _, name, amount, label)
    local odd = { nan = 0 / 0, inf = 1 / 0 }
    local done, why = pcall(oribi.count, name, odd[amount] or tonumber(amount), { [label] = "x" })
    return answer(done and "fine\n" or "error: " .. tostring(why) .. "\n")
end

local behaviours = {
    [""] = function() return answer("hello\n") end,
    fast = function(_, number) return answer("fast " .. number .. "\n") end,
    mark = entering("mark", function() end),
    sleep = entering("sleep", function(seconds) sleep_for(tonumber(seconds)) end),
    nap = function(_, number, seconds)
        sleep_for(tonumber(seconds))
        return answer("nap " .. number .. "\n")
    end,
    stuck = entering("stuck", loop_for_ever),
    regex = entering("regex", match_for_ever),
    read = entering("read", read_for_ever),
    c = entering("c", compute_for_ever),
    leak = function(_, number)
        devour(1)
        return answer("leak " .. number .. "\n")
    end,
    boot = boot,
    count = count,
    misuse = misuse,
    odd = function(_, number)
        oribi.count("odd", 0.5, { text = 'a"b\\c\n\226\130\172' })
        return answer("odd " .. number .. "\n")
    end,
    series = function(_, number, pages)
        for page = 1, tonumber(pages) do oribi.count("visits", 1, { page = page }) end
        return answer("series " .. number .. "\n")
    end,
    die = function(_, number) error("request " .. number .. " dies") end,
    exit = function() os.exit(3) end,
    kill = function() ffi.C.kill(ffi.C.getpid(), 9) end,
    vanish = function() ffi.C._exit(0) end,
    overflow = function(_, number)
        overflow()
        return answer("overflow " .. number .. "\n")
    end,
    devour = function(_, number, most)
        devour(tonumber(most))
        return answer("devour " .. number .. "\n")
    end,
    segv = function() ffi.cast("int *", 0)[0] = 1 end,
    big = function(_, number, length) return answer(letters(number, tonumber(length))) end,
    stream = function(_, number, length, pieces) return stream(number, length, pieces, false) end,
    trailers = function(_, number, length) return trailers(number, length) end,
    behind = behind,
    broken = function(_, number, length, pieces) return stream(number, length, pieces, true) end,
    tls = function(request)
        local variables = request.variables
        local function value(name) return variables[name] or "-" end
        return answer(table.concat({ request.scheme, value "HTTPS", value "SSL_PROTOCOL", value "SSL_TLS_SNI", value "SERVER_PORT" }, " "))
    end,
    client = function(request)
        local variables, said = request.variables, {}
        for number, name in ipairs { "VERIFY", "S_DN", "I_DN", "M_SERIAL", "CERT" } do
            said[number] = variables["SSL_CLIENT_" .. name] or "-"
        end
        return answer(table.concat(said, "\n"))
    end,
    ls = function() return answer(io.popen("ls /proc/self/fd"):read("*a")) end,
    upload = function(request) return answer(request:read("a")) end,
    unmodified = function(_, number) return 304, { ["X-Worker"] = pid(), ["ETag"] = '"' .. number .. '"' }, "" end,
    named = function() return answer("", { ["X-Sendfile"] = files .. "/small" }) end,
}

return function(request)
    local behaviour = behaviours[request.path:sub(2)]
    if not behaviour then return 404, {}, "" end
    local arguments = {}
    for argument in request.query:gmatch("[^&]+") do arguments[#arguments + 1] = argument end
    return behaviour(request, unpack(arguments))
end
