WITH named AS (
  SELECT *, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' END AS known
  FROM bid
)
SELECT
  auction, bidder, price, channel,
  COALESCE(known, CASE WHEN regexp_matches(url, '(&|^)channel_id=') THEN regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END) AS channel_id
FROM named
WHERE channel_id IS NOT NULL
