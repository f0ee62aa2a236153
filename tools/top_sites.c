/* top_sites.c - see top_sites.h. */
#include "top_sites.h"

#include <stdlib.h>
#include <string.h>

#include "calls.h"

static int by_bytes(const void *a, const void *b) {
  const struct site *left = a, *right = b;
  return left->live_bytes > right->live_bytes ? -1 : left->live_bytes < right->live_bytes;
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

void top_sites_look(struct top_sites *sites, const struct snapshot *snapshot,
                    const struct remote *remote) {
  struct top_sites before = *sites;
  struct profile profile;
  sites->count = 0;
  sites->sampled.known = false;
  if (profile_look(&profile, remote) != NULL) return;
  (void)sampled_find(&sites->sampled, snapshot, &profile, remote);
  if (!sites->opened) sites->symbols = symbols_open(remote_target(remote));
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
    if (!was_named(&before, site))
      calls_text(of, sites->symbols, false, site->text, sizeof site->text);
  }
  profile_free(&profile);
}

void top_sites_free(struct top_sites *sites) { symbols_close(sites->symbols); }
