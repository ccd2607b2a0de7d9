-- An app as luafcgid has them: the global function `main`. It shows the data of the web server and the client.
local luafcgid = require "luafcgid"
local oribi = require "oribi"

local function escape(value)
    return oribi.escape_html(tostring(value))
end

local function show(con, title, values)
    con:puts("<h2>" .. title .. "</h2>\n<table>\n")
    local names = {}
    for name in pairs(values) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
        con:puts("<tr><th>" .. escape(name) .. "</th><td>" .. escape(values[name]) .. "</td></tr>\n")
    end
    con:puts("</table>\n")
end

function main(env, con)
    con:header("Cache-Control", "no-store")
    con:puts("<!DOCTYPE html>\n<title>Environment</title>\n")
    show(con, "Environment", env)
    if env.QUERY_STRING ~= "" then show(con, "Query", luafcgid.parse(env.QUERY_STRING)) end
    if env.REQUEST_METHOD == "POST" then
        local content = {}
        for part in function() return con:gets() end do content[#content + 1] = part end
        con:puts("<h2>Content</h2>\n<pre>" .. escape(table.concat(content)) .. "</pre>\n")
    end
end
