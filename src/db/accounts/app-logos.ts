import type { Queryable } from '../postgres/connect.ts';

export type LogoType = 'image/png' | 'image/webp';

export interface Logo {
  contentType: LogoType;
  image: Buffer;
}

/** Stores an app's logo and the logo's version. Replaces an earlier logo of the app. */
export async function storeLogo(
  sql: Queryable,
  appId: string,
  version: string,
  { contentType, image }: Logo,
): Promise<void> {
  await sql`
    with stored as (
      insert into app_logos (app_id, content_type, image)
      values (${appId}, ${contentType}, ${image})
      on conflict (app_id) do update
        set content_type = excluded.content_type, image = excluded.image, stored_at = now()
      returning app_id
    )
    update apps set logo_version = ${version}, updated_at = now()
    from stored where id = stored.app_id`;
}

export async function deleteLogo(sql: Queryable, appId: string): Promise<void> {
  await sql`
    with gone as (delete from app_logos where app_id = ${appId})
    update apps set logo_version = null, updated_at = now() where id = ${appId}`;
}

/**
 * Finds an app's logo by its version. Returns undefined (1) if the app has no logo or a logo of
 * another version, (2) while the app's merchant is suspended.
 */
export async function findLogo(
  sql: Queryable,
  appId: string,
  version: string,
): Promise<Logo | undefined> {
  const [row] = await sql<Logo[]>`
    select content_type, image from app_logos join apps on apps.id = app_id
      join merchants m on m.id = apps.merchant_id
    where app_id = ${appId} and logo_version = ${version}
      and not exists (select from suspensions where role = 'merchant' and wallet = m.wallet)`;
  return row;
}
