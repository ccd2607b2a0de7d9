#!/bin/sh
# starts the shop
set -e
PORT=8080
export PORT PLACK_ENV=production DATABASE="dbi:SQLite:shop.db"
cd /srv/shop
exec starman \
  --listen :8080 \
  --workers 4 app.psgi
