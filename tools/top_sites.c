/* top_sites.c - see top_sites.h. */
#include "top_sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "symbols.h"

static int by_bytes(const void *a, const void *b) {
  const struct site *left = a, *right = b;
  return left->live_bytes > right->live_bytes ? -1 : left->live_bytes < right->live_bytes;
}

static void name(struct top_sites *sites, struct top_site *site, const struct site *of) {
  int length = 0;
  site->text[0] = 0;
  for (unsigned i = 0; i < of->depth && i < TOP_SITE_CALLS && length < TOP_SITE_TEXT; i++) {
    struct symbol symbol = symbols_find(sites->symbols, of->addresses[i] - 1);
    char *end = site->text + length;
    size_t room = sizeof site->text - (size_t)length;
    const char *behind = i > 0 ? " < " : "";
    length += symbol.function != NULL
                  ? snprintf(end, room, "%s%s", behind, symbol.function)
                  : snprintf(end, room, "%s0x%llx", behind, (unsigned long long)of->addresses[i]);
  }
  if (of->depth == 0) snprintf(site->text, sizeof site->text, "(stack unknown)");
  make_printable(site->text, sizeof site->text);
}

/* As an earlier look named it. */
static bool was_named(const struct top_sites *before, struct top_site *site) {
  for (unsigned i = 0; i < before->count; i++)
    if (before->sites[i].place == site->place) {
      memcpy(site->text, before->sites[i].text, sizeof site->text);
      return true;
    }
  return false;
}

void top_sites_look(struct top_sites *sites, const struct remote *remote) {
  struct top_sites before = *sites;
  struct profile profile;
  sites->count = 0;
  if (profile_look(&profile, remote) != NULL) return;
  if (!sites->opened) sites->symbols = symbols_open(remote->task);
  sites->opened = true;
  if (profile.site_count > 0)
    qsort(profile.sites, profile.site_count, sizeof *profile.sites, by_bytes);
  for (size_t i = 0; i < profile.site_count && sites->count < TOP_SITES; i++) {
    const struct site *of = &profile.sites[i];
    if (!(of->live_bytes > 0)) break;
    struct top_site *site = &sites->sites[sites->count++];
    site->bytes = of->live_bytes;
    site->samples = of->samples.live;
    site->place = of->place;
    if (!was_named(&before, site)) name(sites, site, of);
  }
  profile_free(&profile);
}

void top_sites_free(struct top_sites *sites) { symbols_close(sites->symbols); }
