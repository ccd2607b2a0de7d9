/* libevent's own HTTP server with a fixed reply: what Oribi over libevent is compared with.
 *
 * usage: evhttp ADDRESS FILE; ADDRESS is HOST:PORT (IPv4) or unix:PATH, the bytes of FILE are the content of every reply.
 * One thread. Signals end it. `evhttp --version` prints the version of libevent. */

#include <arpa/inet.h>
#include <err.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* As the other servers of the study have it. */
enum { BACKLOG = 4096, IDLE_SECONDS = 600 };

/* Below this a copy costs less than the note of where the bytes are. */
enum { WORTH_REFERRING_TO = 4096 };

struct content {
	char *bytes;
	size_t size;
};

static struct content read_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat about;
	if (!file || fstat(fileno(file), &about))
		err(1, "%s", path);
	struct content content = { malloc(about.st_size + 1), about.st_size };
	if (!content.bytes || fread(content.bytes, 1, content.size, file) != content.size)
		err(1, "%s", path);
	fclose(file);
	return content;
}

static int listen_at(const char *address)
{
	union {
		struct sockaddr any;
		struct sockaddr_in internet;
		struct sockaddr_un local;
	} name = { 0 };
	socklen_t size;
	const char *colon = strrchr(address, ':');
	if (!strncmp(address, "unix:", 5)) {
		name.local.sun_family = AF_UNIX;
		if (strlen(address + 5) >= sizeof name.local.sun_path)
			errx(2, "%s: too long", address);
		strcpy(name.local.sun_path, address + 5);
		unlink(name.local.sun_path);
		size = sizeof name.local;
	} else {
		char host[INET_ADDRSTRLEN] = "";
		if (!colon || (size_t)(colon - address) >= sizeof host)
			errx(2, "%s: expected HOST:PORT or unix:PATH", address);
		memcpy(host, address, colon - address);
		name.internet.sin_family = AF_INET;
		name.internet.sin_port = htons(atoi(colon + 1));
		if (inet_pton(AF_INET, host, &name.internet.sin_addr) != 1)
			errx(2, "%s: expected HOST:PORT or unix:PATH", address);
		size = sizeof name.internet;
	}
	int one = 1, listener = socket(name.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
	    bind(listener, &name.any, size) || listen(listener, BACKLOG))
		err(1, "%s", address);
	return listener;
}

static void answer(struct evhttp_request *request, void *argument)
{
	const struct content *content = argument;
	struct evbuffer *buffer = evbuffer_new();
	if (!buffer)
		errx(1, "out of memory");
	if (content->size < WORTH_REFERRING_TO)
		evbuffer_add(buffer, content->bytes, content->size);
	else
		evbuffer_add_reference(buffer, content->bytes, content->size, NULL, NULL);
	evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", "text/plain");
	evhttp_send_reply(request, HTTP_OK, "OK", buffer);
	evbuffer_free(buffer);
}

int main(int count, char **arguments)
{
	if (count == 2 && !strcmp(arguments[1], "--version")) {
		printf("libevent %s\n", event_get_version());
		return 0;
	}
	if (count != 3)
		errx(2, "usage: evhttp ADDRESS FILE");
	struct content content = read_file(arguments[2]);
	struct rlimit files;
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	struct event_base *base = event_base_new();
	struct evhttp *server = base ? evhttp_new(base) : NULL;
	if (!server || evhttp_accept_socket(server, listen_at(arguments[1])))
		errx(1, "libevent makes no HTTP server");
	evhttp_set_timeout(server, IDLE_SECONDS);
	evhttp_set_gencb(server, answer, &content);
	return event_base_dispatch(base) < 0;
}
