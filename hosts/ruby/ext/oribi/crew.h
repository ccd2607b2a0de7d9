/* crew.h - the Ruby threads of a worker, and the forks that make workers. */
#ifndef ORIBI_RUBY_CREW_H
#define ORIBI_RUBY_CREW_H

#include "oribi.h"
#include <stdbool.h>

/* For the table of functions: oribi_host.lock. */
extern const oribi_lock crew_lock;

/* Whether the lane of this process can still be used: what refers to an exchange may outlive it. */
bool crew_has_lane(void);

/* oribi_write(), which here returns late however often the thread is interrupted. Interrupts are seen to meanwhile: it may be left by
 * a jump. */
oribi_result crew_write(oribi_lane *lane, oribi_exchange exchange, const char *data, size_t size);

/* To be called when the app's code was left by Thread#kill: the calling thread ends after its turn. */
void crew_thread_was_killed(void);

/* For the table of functions: oribi_host.fork. */
int fork_by_ruby(void *data);

/* How often this process or one it descends from was copied since fork_watch(): if an app returns with another number than it was
 * called with, it has forked and come back in the child, which must not go on as if it were the worker. */
void fork_watch(void);
extern unsigned fork_count;

/* Takes the signals that the server answers away from Ruby, and gives them back. */
void signals_yield_to_server(void);
void signals_restore(void);
/* To be called in a worker when the server has set its handlers there. */
void signals_know_servers(void);
/* In a child that an app has forked: gives those signals back to Ruby that the server answers in the worker. It may be called between
 * fork and exec. */
void signals_leave_server(void);

#endif
