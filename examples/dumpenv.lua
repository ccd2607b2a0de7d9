-- A script in the style of luafcgid, which shows what a request is made of. Behind a web server:
--
--     oribi luafcgid config.lua
--
-- or by itself: oribi examples/dumpenv.lua

local luafcgid = require "luafcgid"
local escape = require("oribi").escape_html

local function show(con, title, values)
    con:puts("<h2>" .. title .. "</h2>\n<table>\n")
    local names = {}
    for name in pairs(values) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
        local value = values[name]
        if type(value) == "table" then value = table.concat(value, ", ") end
        con:puts("<tr><th>" .. escape(name) .. "<td>" .. escape(tostring(value)) .. "\n")
    end
    con:puts("</table>\n")
end

function main(env, con)
    con:content_type("text/html; charset=utf-8")
    con:puts("<!DOCTYPE html>\n<title>dumpenv</title>\n")
    show(con, "Variables", env)
    show(con, "Query", luafcgid.parse(env.QUERY_STRING))
    if env.REQUEST_METHOD == "POST" then show(con, "Form", luafcgid.parse(con:gets() or "")) end
end
