-- luafcgid
listen = "/run/lua.sock"
workers = 4
states = workers * 2
maxpost = 1024 * 1024
logfile = "lua.log"
headersize = 64
headers = {
  "A: b",
}
zork = 1
if os then x = 1 end
