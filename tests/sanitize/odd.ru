# frozen_string_literal: true

# An app that frees, changes, collects, compacts, raises and forks wherever the server calls it or reads what it gave. None of
# that may make the server touch memory that is no longer its own. GET / lists the oddities, one path each.

require "timeout"

module Odd
  TEXT = { "content-type" => "text/plain" }.freeze

  # All garbage is collected, and the remaining objects move to another place.
  def self.collect
    GC.start
    GC.compact if GC.respond_to?(:compact)
  end

  # State that one request leaves to the next ones.
  def self.kept = @kept ||= []

  # A string with an allocation of its own.
  def self.text(size = 5000)
    @count = (@count || 0) + 1
    (97 + (@count % 26)).chr * size
  end

  def self.fork_and_wait
    Process.wait(fork { exit!(0) })
    Process.wait(fork { exit(0) })
  end

  # Calls a block where something is read as a string.
  class Reader
    def initialize(&run) = @run = run
    def to_str = @run.call
    alias to_s to_str
  end

  # Calls a block with what takes its pieces.
  class Body
    def initialize(close: nil, &each)
      @each = each
      @close = close
    end

    def each(&) = @each.call(&)
    def close = @close&.call
  end

  class PathBody < Body
    def to_path = Odd.text.tap { |path| Odd.collect && path.clear }
  end

  ODDITIES = {
    # Heads that change while they are read.
    "headers-cleared" => lambda { |_env|
                           headers = TEXT.dup
                           headers["x-a"] = Reader.new do
                             headers.clear
                             Odd.collect
                             Odd.text
                           end
                           [200, headers, ["x"]]
                         },
    "headers-each" => lambda { |_env|
                        headers = Class.new do
                          def each
                            3.times do |n|
                              Odd.collect
                              value = Odd.text
                              yield "x-#{n}", value
                              value.clear
                            end
                          end
                        end.new
                        [200, headers, ["x"]]
                      },
    "header-lists" => lambda { |_env|
                        list = [Odd.text, Odd.text]
                        list << Reader.new do
                          list.clear
                          Odd.collect
                          Odd.text
                        end
                        [200, TEXT.merge("x-a" => list), ["x"]]
                      },
    "header-lines" => ->(_env) { [200, TEXT.merge("x-a" => "#{Odd.text}\n#{Odd.text}"), ["x"]] },
    "header-frozen" => ->(_env) { [200, TEXT.merge("x-a" => Odd.text.freeze).freeze, ["x"].freeze].freeze },
    "header-nil" => ->(_env) { [200, TEXT.merge("x-a" => nil, nil => "x"), ["x"]] },
    "header-numbers" => ->(_env) { [200, TEXT.merge("x-a" => 5, :x => :y), ["x"]] },
    "header-raises" => ->(_env) { [200, TEXT.merge("x-a" => Odd.text, "x-b" => Reader.new { raise Odd.text }), ["x"]] },
    "header-forks" => lambda { |_env|
                        [200, TEXT.merge("x-a" => Reader.new do
                                                    Odd.fork_and_wait
                                                    Odd.text
                                                  end), ["x"]]
                      },
    "header-adds" => lambda { |_env|
                       headers = TEXT.dup
                       headers["x-a"] = Reader.new do
                         100.times do |n|
                           headers["x-#{n}"] = Odd.text
                         end
                         "a"
                       end
                       [200, headers, ["x"]]
                     },
    "status-clears" => lambda { |_env|
                         response = [nil, TEXT.merge("x-a" => Odd.text), [Odd.text]]
                         response[0] = Class.new do
                           define_method(:to_i) do
                             response.clear
                             Odd.collect
                             200
                           end
                         end.new
                         response
                       },
    "status-text" => ->(_env) { ["200", TEXT, ["x"]] },

    # Bodies that change while they are sent.
    "body-clears-pieces" => lambda { |_env|
                              [200, TEXT, Body.new do |&take|
                                            3.times do
                                              piece = Odd.text
                                              take.call(piece)
                                              piece.clear
                                              Odd.collect
                                            end
                                          end]
                            },
    "body-one-string" => lambda { |_env|
                           piece = +""
                           [200, TEXT, Body.new do |&take|
                                         5.times do
                                           piece.replace(Odd.text(9000))
                                           take.call(piece)
                                         end
                                       end]
                         },
    "body-large" => lambda { |_env|
                      piece = Odd.text(600_000)
                      [200, TEXT, Body.new do |&take|
                                    take.call(piece)
                                    piece.clear
                                    Odd.collect
                                    take.call(Odd.text)
                                  end]
                    },
    "body-changed-by-thread" => lambda { |_env|
      piece = Odd.text(300_000)
      other = Thread.new do
        50.times do
          piece.replace(Odd.text(100_000))
          piece << Odd.text(200_000)
          Thread.pass
        end
      end
      [200, TEXT, Body.new(close: -> { other.join }) { |&take| 3.times { take.call(piece) } }]
    },
    "body-array-cleared" => lambda { |_env|
                              body = [Odd.text, Odd.text]
                              body << Reader.new do
                                body.clear
                                Odd.collect
                                Odd.text
                              end
                              [200, TEXT, body]
                            },
    "body-array-grows" => lambda { |_env|
                            body = [Odd.text]
                            body << Reader.new do
                              200.times do
                                body << Odd.text
                              end
                              "x"
                            end
                            [200, TEXT, body]
                          },
    "body-array-singleton" => lambda { |_env|
                                body = [Odd.text]
                                body.define_singleton_method(:each) do |&take|
                                  clear
                                  Odd.collect
                                  take.call(Odd.text)
                                end
                                [200, TEXT, body]
                              },
    "body-nil-piece" => ->(_env) { [200, TEXT, [Odd.text, nil, Odd.text]] },
    "body-raises" => lambda { |_env|
                       [200, TEXT, Body.new do |&take|
                                     take.call(Odd.text)
                                     raise Odd.text
                                   end]
                     },
    "body-throws" => lambda { |_env|
                       [200, TEXT, Body.new do |&take|
                                     take.call(Odd.text)
                                     throw :nobody
                                   end]
                     },
    "body-breaks" => lambda { |_env|
                       [200, TEXT, Body.new do |&take|
                                     [1].each do # rubocop:disable Lint/UnreachableLoop
                                       take.call(Odd.text)
                                       break
                                     end
                                   end]
                     },
    "body-forks" => lambda { |_env|
                      [200, TEXT, Body.new do |&take|
                                    take.call(Odd.text)
                                    Odd.fork_and_wait
                                    take.call(Odd.text)
                                  end]
                    },
    "body-close-raises" => lambda { |_env|
                             [200, TEXT, Body.new(close: lambda {
                                                           Odd.collect
                                                           raise Odd.text
                                                         }) { |&take| take.call(Odd.text) }]
                           },
    "body-block-kept" => lambda { |_env|
                           [200, TEXT, Body.new do |&take|
                                         take.call(Odd.text)
                                         Odd.kept << take
                                       end]
                         },
    "body-block-late" => lambda { |_env|
                           Odd.kept.shift(3).each do |take|
                             take.call(Odd.text)
                           rescue StandardError
                             nil
                           end
                           [200, TEXT, ["x"]]
                         },
    "body-path" => ->(_env) { [200, TEXT, PathBody.new { |&take| take.call(Odd.text) }] },
    "body-file" => ->(_env) { [200, TEXT, File.open(__FILE__)] },
    "body-file-closed" => ->(_env) { [200, TEXT, File.open(__FILE__).tap(&:close)] },
    "body-fiber" => lambda { |_env|
                      [200, TEXT, Body.new do |&take|
                                    fiber = Fiber.new do
                                      take.call(Odd.text)
                                      Fiber.yield
                                      take.call(Odd.text)
                                    end
                                    fiber.resume
                                    Odd.collect
                                    fiber.resume
                                  end]
                    },
    "body-enumerator" => lambda { |_env|
                           [200, TEXT, Enumerator.new do |out|
                                         3.times do
                                           out << Odd.text
                                           Odd.collect
                                         end
                                       end]
                         },
    "body-encodings" => lambda { |_env|
                          [200, TEXT, [Odd.text.encode("UTF-16LE"), Odd.text.b, Odd.text.force_encoding("ASCII-8BIT")]]
                        },
    "body-shared-string" => lambda { |_env|
                              whole = Odd.text(40_000)
                              parts = [whole[1..], whole[5000..], whole[-10_000..]]
                              whole.clear
                              Odd.collect
                              [200, TEXT, parts]
                            },
    "stream" => lambda { |_env|
                  [200, TEXT, lambda { |stream|
                                3.times do
                                  piece = Odd.text
                                  stream.write(piece)
                                  piece.clear
                                  Odd.collect
                                end
                                stream.close
                              }]
                },
    # It is never closed, but it is collected soon.
    "stream-not-closed" => lambda { |_env|
                             [200, TEXT, lambda { |stream|
                                           stream.write(Odd.text)
                                           Thread.new { 5.times { sleep(0.05) || Odd.collect } }
                                         }]
                           },
    "stream-kept" => lambda { |_env|
                       [200, TEXT, lambda { |stream|
                                     stream.write(Odd.text)
                                     Odd.kept << lambda { |text|
                                       stream.write(text)
                                     }
                                     stream.close
                                   }]
                     },
    "stream-raises" => lambda { |_env|
                         [200, TEXT, lambda { |stream|
                                       stream.write(Odd.text)
                                       raise Odd.text
                                     }]
                       },
    "stream-reads" => lambda { |_env|
                        [200, TEXT, lambda { |stream|
                                      stream.write(Odd.text)
                                      stream.close_write if stream.respond_to?(:close_write)
                                      stream.close
                                    }]
                      },

    # Values that are not a response.
    "nothing" => ->(_env) {},
    "a-hash" => ->(_env) { { Odd.text => Odd.text } },
    "empty" => ->(_env) { [] },
    "raises" => ->(_env) { raise Odd.text },
    "raises-exception" => ->(_env) { raise StandardError, Odd.text },
    "raises-odd-message" => ->(_env) { raise(Class.new(StandardError) { def message = raise(Odd.text) }) },
    "throws" => ->(_env) { throw :nobody, Odd.text },
    "exits" => ->(_env) { exit },
    "deep" => lambda { |_env|
                deeper = ->(n) { n.zero? ? Odd.collect : deeper.call(n - 1) }
                deeper.call(500)
                [200, TEXT, ["x"]]
              },
    "too-deep" => lambda { |_env|
                    deeper = -> { deeper.call }
                    deeper.call
                  },
    "times-out" => ->(_env) { Timeout.timeout(0.05) { sleep 5 } },

    # The environment and the content.
    "env-cleared" => lambda { |env|
                       env.clear
                       Odd.collect
                       [200, TEXT, [Odd.text]]
                     },
    "env-kept" => lambda { |env|
                    Odd.kept << lambda {
                      env.values.grep(String).join
                    }
                    Odd.kept.shift if Odd.kept.size > 5
                    Odd.collect
                    [200, TEXT, [Odd.text]]
                  },
    "env-values-changed" => lambda { |env|
                              env.each_value do |value|
                                value.replace(Odd.text) if value.is_a?(String) && !value.frozen?
                              end
                              Odd.collect
                              [200, TEXT, [Odd.text]]
                            },
    "env-frozen" => lambda { |env|
                      env.freeze
                      [200, TEXT, [Odd.text]]
                    },
    "env-compared" => lambda { |env|
                        env.compare_by_identity
                        env["x"] = Odd.text
                        Odd.collect
                        [200, TEXT, [Odd.text]]
                      },
    "input" => lambda { |env|
                 all = +""
                 piece = +""
                 all << piece while env["rack.input"].read(1000, piece)
                 [200, TEXT, [all.size.to_s]]
               },
    "input-buffers" => lambda { |env|
                         env["rack.input"].read(10, Odd.text)
                         begin
                           env["rack.input"].read(10, "frozen")
                         rescue StandardError
                           nil
                         end
                         begin
                           env["rack.input"].read(-1)
                         rescue StandardError
                           nil
                         end
                         [200, TEXT, ["x"]]
                       },
    "input-lines" => lambda { |env|
                       env["rack.input"].each do |line|
                         line.clear
                         Odd.collect
                       end
                       [200, TEXT, ["x"]]
                     },
    "input-kept" => lambda { |env|
                      input = env["rack.input"]
                      Odd.kept << lambda { |*|
                        input.read(10)
                      }
                      input.read(10)
                      Odd.collect
                      [200, TEXT, ["x"]]
                    },
    "input-closed" => lambda { |env|
                        env["rack.input"].close if env["rack.input"].respond_to?(:close)
                        begin
                          env["rack.input"].read
                        rescue StandardError
                          nil
                        end
                        [200, TEXT, ["x"]]
                      },
    "input-forks" => lambda { |env|
                       env["rack.input"].read(10)
                       Odd.fork_and_wait
                       env["rack.input"].read
                       [200, TEXT, ["x"]]
                     },
    "hijack" => lambda { |env|
                  io = env["rack.hijack"].call
                  io.write("HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx")
                  io.close
                  [200, TEXT, ["y"]]
                },
    "hijack-partial" => lambda { |_env|
                          [200, TEXT.merge("rack.hijack" => lambda { |io|
                                                              Odd.collect
                                                              io.write(Odd.text)
                                                              io.close
                                                            }), []]
                        },
    "finished" => lambda { |env|
                    env["rack.response_finished"]&.push(lambda { |*|
                                                          env.clear
                                                          Odd.collect
                                                          raise Odd.text
                                                        })
                    [200, TEXT, ["x"]]
                  },
    "early-hints" => lambda { |env|
                       env["rack.early_hints"]&.call("link" => Odd.text(300))
                       Odd.collect
                       [200, TEXT, ["x"]]
                     },
    "collects" => lambda { |_env|
                    GC.stress = true
                    20.times { Odd.text(100) }
                    [200, TEXT.merge("x-a" => Odd.text), [Odd.text]]
                  },
    "collects-no-more" => lambda { |_env|
                            GC.stress = false
                            [200, TEXT, ["x"]]
                          },
    "finalizers" => lambda { |_env|
                      50.times do
                        ObjectSpace.define_finalizer(Object.new, proc {
                                                                   Odd.text
                                                                 })
                      end
                      Odd.collect
                      [200, TEXT, ["x"]]
                    },
    "threads" => lambda { |_env|
                   4.times.map do
                     Thread.new do
                       Odd.collect
                       Odd.text
                     end
                   end.each(&:join)
                   [200, TEXT, ["x"]]
                 },
    "thread-forks" => lambda { |_env|
                        Thread.new { Odd.fork_and_wait }.join
                        [200, TEXT, ["x"]]
                      },
    "signal" => lambda { |env|
                  before = trap("USR2") do
                    env.clear
                  end
                  Process.kill("USR2", Process.pid)
                  Thread.pass
                  trap("USR2", before || "DEFAULT")
                  [200, TEXT, [Odd.text]]
                },
    "stuck" => lambda { |_env|
                 loop { Odd.kept.replace([Odd.text, Odd.text]) }
                 [200, TEXT, ["x"]]
               },
    "child-command" => ->(_env) { [200, TEXT, [`echo said`]] }
  }.freeze

  # Ends what one oddity would do to the others.
  def self.call(env)
    name = env["PATH_INFO"].delete_prefix("/")
    return [200, TEXT, ODDITIES.keys.sort.map { |key| "#{key}\n" }] if name.empty?

    odd = ODDITIES[name]
    odd ? odd.call(env) : [404, TEXT, ["no such oddity\n"]]
  end
end

run Odd
