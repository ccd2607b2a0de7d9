# An app on Nomad; docs/containers.md has a file for the image, docs/kubernetes.md reasons for the options. Run it by
# `nomad job run deploy/nomad.hcl`.
job "shop" {
  update {
    max_parallel     = 1
    min_healthy_time = "5s"
    healthy_deadline = "2m"
    auto_revert      = true
  }

  group "app" {
    count = 3

    network {
      port "http" { to = 8080 }
    }

    service {
      name     = "shop"
      port     = "http"
      provider = "nomad"

      check {
        type     = "http"
        path     = "/healthz"
        interval = "2s"
        timeout  = "2s"
      }
    }

    task "app" {
      driver = "docker"
      user   = "10001:10001"

      # Longer than --shutdown-delay and --graceful-timeout together. A client with its default max_kill_timeout allows 30 s.
      kill_timeout = "30s"

      config {
        image      = "registry.example/shop:1"
        ports      = ["http"]
        entrypoint = ["oribi"]
        args = [
          "app.psgi",
          "--listen=:8080",
          "--workers=2",
          "--probe=/healthz",
          "--shutdown-delay=8s",
          "--graceful-timeout=20s",
          "--retry-lost",
        ]
        readonly_rootfs = true
        cap_drop        = ["all"]
        security_opt    = ["no-new-privileges"]

        mount {
          type   = "tmpfs"
          target = "/tmp"
          tmpfs_options {
            mode = 1023 # 1777, octal
            size = 268435456
          }
        }
      }

      resources {
        cpu    = 250
        memory = 768
      }
    }
  }
}
