/* SPDX-License-Identifier: Apache-2.0
 * describe.h -- what the program says of itself.
 */
#ifndef GM_TOOLS_DESCRIBE_H
#define GM_TOOLS_DESCRIBE_H

#include <stdio.h>

void gm_describe_all (FILE *to);                   /* `gramme --help` */
void gm_describe_one (FILE *to, const char *tool); /* `gramme TOOL --help` */
void gm_describe_man (FILE *to);                   /* gramme(1), in roff */
void gm_describe_bash (FILE *to);                  /* completion of its command line for bash */

#endif
