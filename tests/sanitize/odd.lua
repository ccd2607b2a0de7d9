-- An app that frees, changes, collects and raises wherever the server calls it or reads what it gave. None of that may make the
-- server touch memory that is no longer its own. GET / lists the oddities, one path each.

local kept = {}
local count = 0

-- A string that equals no other one, so that it is freed when nothing refers to it.
local function text(size)
    count = count + 1
    return string.rep(string.char(97 + count % 26), size or 5000) .. count
end

local function collect()
    collectgarbage()
    collectgarbage()
end

local plain = { ["Content-Type"] = "text/plain" }

-- A table that runs code when it is read.
local function reading(run)
    return setmetatable({}, { __index = run, __tostring = run, __len = function() return 3 end, __call = run, __concat = run })
end

local odd = {}

function odd.fields_cleared_by_body()
    local fields = { ["Content-Type"] = "text/plain", ["X-A"] = text(), ["X-B"] = text(3000) }
    local left = 3
    return 200, fields, function()
        for name in pairs(fields) do fields[name] = nil end
        collect()
        left = left - 1
        return left > 0 and text() or nil
    end
end

function odd.fields_replaced_by_body()
    local fields = { { "X-A", text() }, { "X-B", text() } }
    local left = 3
    return 200, fields, function()
        fields[1][2], fields[2] = nil, nil
        kept[#kept + 1] = text(100000)
        collect()
        left = left - 1
        return left > 0 and text(70000) or nil
    end
end

function odd.fields_with_metatable() return 200, reading(function() collect() return text() end), "x" end
function odd.field_with_metatable() return 200, { ["X-A"] = reading(function() collect() return text() end) }, "x" end
function odd.field_list() return 200, { ["X-A"] = { text(), text(), 5, 2.5 } }, "x" end
function odd.field_numbers() return 200, { ["X-A"] = 5, ["X-B"] = 1 / 3, [7] = "x" }, "x" end
function odd.field_wrong() return 200, { ["X-A"] = print }, "x" end
function odd.field_names() return 200, { [text(100)] = text(100), [""] = "x" }, "x" end
function odd.fields_many()
    local fields = {}
    for number = 1, 90 do fields["X-" .. number] = text(50) end
    return 200, fields, "x"
end

function odd.body_list() return 200, plain, { text(), 5, text(), text(100000) } end
function odd.body_list_wrong() return 200, plain, { text(), {}, text() } end
function odd.body_list_with_metatable() return 200, plain, reading(function() collect() return text() end) end
function odd.body_long() return 200, plain, text(600000) end

function odd.body_changes_itself()
    local pieces
    pieces = setmetatable({ text(), text(), text() }, { __index = function(list, index) collect() for at = 1, 3 do list[at] = nil end return index < 5 and text() or nil end })
    pieces[2] = nil
    return 200, plain, pieces
end

function odd.body_raises()
    local left = 2
    return 200, plain, function()
        left = left - 1
        if left == 0 then error({ text() }) end
        return text()
    end
end

function odd.body_in_a_coroutine()
    return 200, plain, coroutine.wrap(function()
        for _ = 1, 3 do
            coroutine.yield(text())
            collect()
        end
    end)
end

function odd.body_yields() return 200, plain, function() coroutine.yield(text()) end end
function odd.body_numbers() local left = 3 return 200, plain, function() left = left - 1 if left > 0 then return left end end end
function odd.body_wrong() return 200, plain, function() return {} end end
function odd.body_kept() local body = function() return nil end kept.body = body return 200, plain, body end

function odd.nothing() end
function odd.a_table() return {} end
function odd.status_wrong() return "x", plain, "x" end
function odd.status_out_of_range() return 99999999999, plain, "x" end
function odd.status_fraction() return 200.5, plain, "x" end
function odd.raises() error(text()) end
function odd.raises_table() error({ 404, text() }) end
function odd.raises_wrong_table() error({ text(), text() }) end
function odd.raises_object() error(setmetatable({}, { __tostring = function() collect() error(text()) end })) end
function odd.raises_nil() error(nil) end
function odd.raises_deep()
    local function deeper(level) if level == 0 then error(text()) end return (deeper(level - 1)) end
    deeper(150)
end
function odd.too_deep() local function deeper() return 1 + deeper() end return 200, plain, tostring(deeper()) end
function odd.raises_in_handler() return xpcall(function() error(text()) end, function() collect() error(text()) end) end
function odd.too_much()
    local all = {}
    for at = 1, 10000 do all[at] = text(100000) end
    return 200, plain, #all
end

function odd.request_kept(request)
    kept.requests = kept.requests or {}
    table.insert(kept.requests, request)
    for _, one in ipairs(kept.requests) do
        pcall(function() return one.method, one.headers, one.variables, one.read(10) end)
    end
    if #kept.requests > 3 then table.remove(kept.requests, 1) end
    return 200, plain, "x"
end

function odd.request_changed(request)
    for _, name in ipairs({ "method", "path", "headers", "read", "variables" }) do request[name] = text() end
    collect()
    return 200, plain, request.method
end

function odd.request_without_metatable(request) setmetatable(request, nil) collect() return 200, plain, "x" end
function odd.request_headers(request)
    local headers = request.headers
    kept.headers = headers
    for name, value in pairs(headers) do headers[name] = value .. text() collect() end
    return 200, plain, tostring(request.headers["Host"])
end

function odd.input(request)
    local all = 0
    for _, size in ipairs({ 0, 1, 10, 1000, 100000 }) do
        local piece = request.read(size)
        all = all + #(piece or "")
        collect()
    end
    return 200, plain, tostring(all)
end

function odd.input_wrong(request)
    for _, size in ipairs({ -1, 1e300, 0 / 0, "x", {}, "l", "a", "n" }) do pcall(request.read, size) end
    return 200, plain, "x"
end

function odd.input_lines(request)
    local lines = 0
    for line in request.lines() do lines = lines + #line collect() end
    kept.lines = request.lines
    pcall(kept.lines)
    return 200, plain, tostring(lines)
end

function odd.finalizers()
    for _ = 1, 50 do setmetatable({}, { __gc = function() kept.finalized = text() error("in a finalizer") end }) end
    collect()
    return 200, plain, "x"
end

function odd.finalizer_reads_request(request)
    setmetatable({}, { __gc = function() kept.seen = request.path collect() end })
    return 200, plain, function()
        collect()
        return nil
    end
end

function odd.globals()
    setmetatable(_G, { __index = function() collect() return nil end, __newindex = function() error(text()) end })
    local ok = pcall(function() unknown = unknown end)
    setmetatable(_G, nil)
    return 200, plain, tostring(ok)
end

function odd.strings()
    local meta = getmetatable("")
    local index = meta.__index
    meta.__index = function(_, name) collect() return index[name] end
    local ok = pcall(function() return ("x"):rep(1000) end)
    meta.__index = index
    return 200, { ["X-A"] = text() }, tostring(ok)
end

function odd.hook()
    if debug and debug.sethook then
        debug.sethook(function() collect() end, "", 100)
        for _ = 1, 50 do text(100) end
        debug.sethook()
    end
    return 200, plain, "x"
end

function odd.command()
    local ok, pipe = pcall(io.popen, "echo said")
    return 200, plain, ok and pipe and pipe:read("*a") or "x"
end

function odd.stuck()
    while true do kept.text = { text(), text() } end
end

function odd.to_be_closed()
    local loaded = load and load([[
        local closed <close> = setmetatable({}, { __close = function() collectgarbage() error("closing") end })
        return string.rep("x", 5000)
    ]])
    return 200, plain, tostring(loaded and pcall(loaded))
end

return function(request)
    local name = string.gsub(string.sub(request.path, 2), "-", "_")
    if name == "" then
        local names = {}
        for known in pairs(odd) do names[#names + 1] = string.gsub(known, "_", "-") .. "\n" end
        table.sort(names)
        return 200, plain, names
    end
    if not odd[name] then return 404, plain, "no such oddity\n" end
    return odd[name](request)
end
