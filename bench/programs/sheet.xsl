<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:key name="k" match="row" use="name"/>
  <xsl:template match="/"><out><xsl:for-each select="//row"><xsl:sort select="v" data-type="number"/>
    <r n="{name}" c="{count(key('k', name))}"><xsl:value-of select="concat(v, '-', @id)"/></r>
  </xsl:for-each></out></xsl:template>
</xsl:stylesheet>
